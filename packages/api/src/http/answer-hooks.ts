/** Hooks for every response: the request id, common headers, rate limits, and a log line. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import type { Limits } from '../rules/limits.ts'
import { plainAddress, subjectOf } from '@static/node/address'
import type { Balancers } from '@static/node/balancers'
import type { App } from './app.ts'
import { rateHeaders } from './headers.ts'
import { SlowRefusals } from './slow-refusals.ts'

/** Lines per minute for refused requests of one route with one status, since anyone can cause any number of them. */
const REFUSED_LINES = 10

/** The methods of the log that these hooks use. */
export type AnswerLog = Pick<Logger, 'debug' | 'info' | 'isLevelEnabled'>

/**
 * Sets up the context in which limits count the request, and the headers that do not depend on the response. False if
 * the client has already reset the connection: then there is no one to answer, and no address to count.
 */
export function beginAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  common: Readonly<Record<string, string>>,
  balancers: Balancers,
): boolean {
  const { ip }: { readonly ip?: string } = request
  // Unlike headers, a balancer's announcement cannot be forged by its clients.
  const address = balancers.announcedOn(request.socket) ?? ip
  if (address === undefined) {
    reply.hijack()
    request.socket.destroy()
    return false
  }
  request.clientAddress = address
  request.rateContext = { address: subjectOf(address), rates: [] }
  reply.header('x-request-id', request.id).headers(common)
  return true
}

/** Adds the headers of every limit applied to the request. */
export function addRateHeaders(request: FastifyRequest, reply: FastifyReply, limits: Limits): void {
  const { rates, address } = request.rateContext
  // Every address has this limit, even if no other limit was applied to the request.
  if (rates.length === 0) rates.push(limits.failures.state(address))
  reply.headers(rateHeaders(rates))
}

/** The options of the hooks. */
export interface AnswerOptions {
  readonly limits: Limits
  /** The headers of every response. */
  readonly common: Readonly<Record<string, string>>
  readonly balancers: Balancers
  readonly log: AnswerLog
  readonly logClients: boolean
}

/** Adds the hooks to every route. */
export function addAnswerHooks(app: App, { limits, common, balancers, log, logClients }: AnswerOptions): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (beginAnswer(request, reply, common, balancers)) done()
  })
  const refusals = new SlowRefusals()
  let closing = false
  app.addHook('preClose', (done) => {
    closing = true
    done()
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    addRateHeaders(request, reply, limits)
    refusals.send(reply.statusCode, () => {
      // A keep-alive connection would delay the shutdown, which may have begun meanwhile.
      if (closing) reply.header('connection', 'close')
      done()
    })
  })
  const repeats = new RepeatLog(() => performance.now(), REFUSED_LINES)
  app.addHook('onResponse', (request, reply, done) => {
    const write = (requests: number): void => logAnswer(request, reply, requests, log, logClients)
    // With debug logging, every request is logged.
    if (log.isLevelEnabled('debug')) write(1)
    // Metrics count successful requests; the log is for requests that an operator may need to examine.
    else if (reply.statusCode >= 400) repeats.note(`${reply.statusCode} ${request.routeOptions.url}`, write)
    done()
  })
}

/** `requests` counts the requests of this kind since the last line. */
function logAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  requests: number,
  log: AnswerLog,
  logClients: boolean,
): void {
  const level = reply.statusCode < 400 ? 'debug' : 'info'
  const { method, id } = request
  const route = request.routeOptions.url ?? null
  // Personal data, so logged only if the operator wants it. Routes without a caller have no account.
  const account = (request.caller ?? request.sessionCaller ?? request.key)?.accountId
  const client = logClients ? { address: plainAddress(request.clientAddress), account } : {}
  const more = requests === 1 ? {} : { requests }
  log[level](
    { request_id: id, method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime), ...more, ...client },
    'request completed',
  )
}
