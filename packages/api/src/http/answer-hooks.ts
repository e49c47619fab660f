/** Hooks for every response: the request id, common headers, rate limits, and a log line. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '@static/node/logger'
import type { Limits } from '../rules/limits.ts'
import { plainAddress, subjectOf } from '@static/node/address'
import type { App } from './app.ts'
import { rateHeaders } from './headers.ts'
import { SlowRefusals } from './slow-refusals.ts'

/** The methods of the log that these hooks use. */
export type AnswerLog = Pick<Logger, 'debug' | 'info' | 'isLevelEnabled'>

/** Sets up the context in which limits count the request, and the headers that do not depend on the response. */
export function beginAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  common: Readonly<Record<string, string>>,
): void {
  request.rateContext = { address: subjectOf(request.ip), rates: [] }
  reply.header('x-request-id', request.id).headers(common)
}

/** Adds the headers of every limit that was applied to the request. */
export function addRateHeaders(request: FastifyRequest, reply: FastifyReply, limits: Limits): void {
  const { rates, address } = request.rateContext
  // Every address has this limit, even if no other was applied to the request.
  if (rates.length === 0) rates.push(limits.failures.state(address))
  reply.headers(rateHeaders(rates))
}

/** Adds the hooks to every route. */
export function addAnswerHooks(
  app: App,
  limits: Limits,
  common: Readonly<Record<string, string>>,
  log: AnswerLog,
  logClients: boolean,
): void {
  app.addHook('onRequest', (request, reply, done) => {
    beginAnswer(request, reply, common)
    done()
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
      // A keep-alive connection would delay the shutdown, which may have begun since.
      if (closing) reply.header('connection', 'close')
      done()
    })
  })
  app.addHook('onResponse', (request, reply, done) => {
    logAnswer(request, reply, log, logClients)
    done()
  })
}

function logAnswer(request: FastifyRequest, reply: FastifyReply, log: AnswerLog, logClients: boolean): void {
  // Successful requests are in the metrics; the log is for what an operator may need to look at.
  const level = reply.statusCode < 400 ? 'debug' : 'info'
  if (!log.isLevelEnabled(level)) return
  const { method, id } = request
  const route = request.routeOptions.url ?? null
  // Personal data, so only if the operator wants it. Routes that need no caller have no account.
  const account = (request.caller ?? request.sessionCaller ?? request.key)?.accountId
  const client = logClients ? { address: plainAddress(request.ip), account } : {}
  log[level](
    { request_id: id, method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime), ...client },
    'request completed',
  )
}
