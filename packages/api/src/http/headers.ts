/** The headers of every response. */
import type { RateState } from '../rules/rate-policy.ts'

/** Whether a name refers to this machine. Such names get no HSTS, which would also apply to other services there. */
export function isLoopbackName(name: string): boolean {
  return (
    name === 'localhost' || name.endsWith('.localhost') || name === '::1' || name === '[::1]' || name.startsWith('127.')
  )
}

/** The headers that do not depend on the response. */
export function commonHeaders(hsts: boolean): Record<string, string> {
  return {
    'cache-control': 'no-store',
    ...(hsts ? { 'strict-transport-security': 'max-age=31536000; includeSubDomains' } : {}),
  }
}

/** Every limit applied to the request, the tightest of each policy (draft-ietf-httpapi-ratelimit-headers). */
export function rateHeaders(rates: readonly RateState[]): { 'ratelimit-policy': string; ratelimit: string } {
  const [only] = rates
  if (only && rates.length === 1) return { 'ratelimit-policy': only.declaration, ratelimit: stateText(only) }
  let [policies, states] = ['', '']
  rates.forEach((rate, at) => {
    const { policy, declaration, remaining } = rate
    const tighter = (other: RateState, place: number): boolean =>
      other.policy === policy && (other.remaining < remaining || (other.remaining === remaining && place > at))
    if (rates.some(tighter)) return
    const comma = policies === '' ? '' : ', '
    policies += comma + declaration
    states += comma + stateText(rate)
  })
  return { 'ratelimit-policy': policies, ratelimit: states }
}

function stateText({ policy, remaining, resetSeconds }: RateState): string {
  return `"${policy}";r=${remaining};t=${resetSeconds}`
}
