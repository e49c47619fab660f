/** The headers of every answer. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RateState } from '../limits.ts'

/** Whether a name means this very machine; such names get no HSTS, it would stick to other services there. */
export function isLoopbackName(name: string): boolean {
  return (
    name === 'localhost' || name.endsWith('.localhost') || name === '::1' || name === '[::1]' || name.startsWith('127.')
  )
}

/** Sets what does not depend on the answer. */
export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply, hsts: boolean): void {
  reply.header('x-request-id', request.id)
  reply.header('cache-control', 'no-store')
  reply.header('x-content-type-options', 'nosniff')
  if (hsts) reply.header('strict-transport-security', 'max-age=31536000; includeSubDomains')
}

/** Tells every limit that the request met, the tightest of each policy (draft-ietf-httpapi-ratelimit-headers). */
export function setRateHeaders(reply: FastifyReply, rates: readonly RateState[]): void {
  let policies = ''
  let states = ''
  rates.forEach((state, at) => {
    const { policy, rate, remaining, resetSeconds } = state
    const tighter = (other: RateState, place: number): boolean =>
      other.policy === policy && (other.remaining < remaining || (other.remaining === remaining && place < at))
    if (rates.some(tighter)) return
    const comma = policies === '' ? '' : ', '
    policies += `${comma}"${policy}";q=${rate.limit};w=${rate.seconds}`
    states += `${comma}"${policy}";r=${remaining};t=${resetSeconds}`
  })
  reply.header('ratelimit-policy', policies)
  reply.header('ratelimit', states)
}
