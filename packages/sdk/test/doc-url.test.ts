import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ErrorCode, StaticError } from '@static/protocol'
import { explainErrors } from '../src/doc-url.ts'
import { StaticChannelManager, StaticClient } from '../src/index.ts'
import { NAME, TestSystem } from './support/test-system.ts'

const API = 'https://api.example:8443'

/** Insists that an error has the code and names its page. */
function explained(code: ErrorCode): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof StaticError)
    assert.deepEqual([error.code, error.docUrl], [code, `${API}/docs/errors#${code}`])
    return true
  }
}

test('errors name the page that explains them', async (t) => {
  const world = await TestSystem.start(t, 'grpc')

  await t.test('wherever they leave the SDK', async (t) => {
    const manager = await StaticChannelManager.start({ ...(await world.parts('owner')), apiUrl: API }, 'localhost')
    t.after(() => manager.close())
    const { client } = manager
    assert.throws(() => client.channel('acme/no/such'), explained('not_found'))
    await assert.rejects(client.createChannel('not a name'), explained('channel_error'))
    await assert.rejects(manager.joinWithToken(NAME, 'st_inv_nonsense'), explained('invite_invalid'))
    const channel = await manager.create(NAME)
    await assert.rejects(channel.send(new Uint8Array(300_000)), explained('too_large'))
    const waiting = channel.messages().next()
    await Promise.all([assert.rejects(waiting, explained('not_found')), channel.delete()])
    // Those that are told, not thrown.
    const events = client.events()
    await world.relay.restart()
    for await (const event of events) {
      if (event.type !== 'disconnected') continue
      explained(event.error.code)(event.error)
      break
    }
  })

  await t.test('also when a client cannot start', async () => {
    const dataDir = join(world.relay.directory, 'nowhere')
    const options = { endpoint: 'https://localhost:1', dataDir, identity: 'guest', apiKey: null, apiUrl: API }
    await assert.rejects(StaticClient.connect(options), explained('connection_error'))
    await assert.rejects(StaticChannelManager.connect(options), explained('connection_error'))
  })
})

test('errors name it also when an iterator throws them', async () => {
  class Source {
    async *items(): AsyncGenerator<number> {
      yield 1
      throw StaticError.of('mls_error')
    }
  }
  explainErrors(Source.prototype, () => API)
  const given: number[] = []
  await assert.rejects(async () => {
    for await (const item of new Source().items()) given.push(item)
  }, explained('mls_error'))
  assert.deepEqual(given, [1])
})

test('without an API there is no page to name', () => {
  assert.equal(StaticError.of('closed').docUrl, undefined)
})
