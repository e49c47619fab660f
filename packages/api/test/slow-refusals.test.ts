import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mock, test } from 'node:test'
import Fastify from 'fastify'
import { Balancers } from '@static/node/balancers'
import { addAnswerHooks } from '../src/http/answer-hooks.ts'
import type { App } from '../src/http/app.ts'
import type { Limits } from '../src/rules/limits.ts'
import { DEFAULT_SETTINGS } from '../src/settings.ts'
import { SlowRefusals } from '../src/http/slow-refusals.ts'

test('refusals that ask to retry are sent a moment later, other answers and refusals beyond a bound at once', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const refusals = new SlowRefusals(2)
  const sent: string[] = []
  const send = (status: number, name: string): void => refusals.send(status, () => sent.push(name))
  send(200, 'ok')
  send(401, 'refused')
  send(429, 'first')
  send(503, 'second')
  send(429, 'beyond')
  send(503, 'beyond as well')
  assert.deepEqual(sent, ['ok', 'refused', 'beyond', 'beyond as well'])
  mock.timers.tick(250)
  assert.deepEqual(sent.slice(4), ['first', 'second'])
  send(429, 'again')
  assert.equal(sent.length, 6)
})

test('refusals that wait leave most connections of a load balancer to others', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const refusals = new SlowRefusals()
  const { connectionsPerAddress } = DEFAULT_SETTINGS.http
  let sent = 0
  for (let at = 0; at < connectionsPerAddress; at++) refusals.send(429, () => sent++)
  assert.ok(sent >= (3 / 4) * connectionsPerAddress, `${sent} of ${connectionsPerAddress}`)
})

test('a refusal that waits when the server stops closes its connection', async (t) => {
  const app = Fastify({ forceCloseConnections: 'idle' }) as unknown as App
  const agent = new Agent({ keepAlive: true })
  t.after(() => {
    agent.destroy()
    app.server.closeAllConnections()
  })
  app.decorateRequest('clientAddress')
  app.decorateRequest('rateContext')
  const refused = Promise.withResolvers<void>()
  app.addHook('onSend', (_request, _reply, _payload, done) => {
    refused.resolve()
    done()
  })
  const state = { policy: 'failures', declaration: '"failures";q=1;w=1', remaining: 0, resetSeconds: 1 }
  const limits = { failures: { state: () => state } } as unknown as Limits
  const log = { debug: () => {}, info: () => {}, isLevelEnabled: () => false }
  addAnswerHooks(app, { limits, common: {}, balancers: new Balancers(), log, logClients: false })
  app.get('/', (_request, reply) => reply.code(429).send())
  await app.listen({ host: '127.0.0.1', port: 0 })
  const asked = get({ host: '127.0.0.1', port: (app.server.address() as AddressInfo).port, agent })
  await refused.promise
  const closed = app.close()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  assert.equal(answer.statusCode, 429)
  assert.equal(answer.headers.connection, 'close')
  answer.resume()
  await closed
})
