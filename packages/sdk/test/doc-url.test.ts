import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ErrorCode, StaticError } from '@static/protocol'
import { ErrorEdge } from '../src/public/error-edge.ts'
import { Channel, StaticChannelManager, StaticClient } from '../src/index.ts'
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

test('errors thrown by iterators name it too', async () => {
  async function* items(): AsyncGenerator<number, undefined, undefined> {
    yield 1
    throw StaticError.of('mls_error')
  }
  const given: number[] = []
  await assert.rejects(async () => {
    for await (const item of new ErrorEdge(API).iterate(items())) given.push(item)
  }, explained('mls_error'))
  assert.deepEqual(given, [1])
})

/** What to call a method with so that it fails, if it can; others are called with nothing. */
const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  addMember: ['no id'],
  addMembers: [['no id']],
  channel: ['acme/no/such'],
  create: ['no name'],
  createChannel: ['no name'],
  invite: ['acme/no/such'],
  joinChannel: [NAME, new Uint8Array(3)],
  joinWithToken: [NAME, 'no token'],
  liftBar: ['no id'],
  vouch: ['no id'],
  receive: ['acme/no/such'],
  receiveEnvelopes: ['acme/no/such'],
  rejectCommit: [1],
  removeMember: ['no id'],
  revokeInvite: ['no token'],
  send: ['acme/no/such', 'a text'],
}
/** Do not fail on a closed agent, or are no doors: `@internal`. */
const HARMLESS = new Set([
  'acceptFork',
  'approvals',
  'asked',
  'catchUp',
  'channelOf',
  'checkAlive',
  'channels',
  'close',
  'constructor',
  'events',
  'files',
  'fingerprint',
  'generateKeyPackage',
  'history',
  'joins',
  'leave',
  'membershipOf',
])

test('no public method throws an error without its page', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const manager = await StaticChannelManager.start({ ...(await world.parts('owner')), apiUrl: API }, 'localhost')
  const channel = await manager.create(NAME)
  await channel.delete()
  await manager.close()
  const objects = [
    [Channel.prototype, channel],
    [StaticClient.prototype, manager.client],
    [StaticChannelManager.prototype, manager],
  ] as const
  for (const [prototype, object] of objects) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (typeof value !== 'function' || HARMLESS.has(name)) continue
      await t.test(`${object.constructor.name}.${name}`, async () => {
        await assert.rejects(call(object, value, WRONG[name] ?? []), (error) => {
          assert.ok(error instanceof StaticError, String(error))
          return explained(error.code)(error)
        })
      })
    }
  }
})

/** Calls a method and waits for what it gives; the first item, if that is an iterator. */
async function call(object: object, method: (...args: unknown[]) => unknown, args: readonly unknown[]): Promise<void> {
  const given = await method.apply(object, [...args])
  if (typeof given === 'object' && given !== null && Symbol.asyncIterator in given) {
    await (given as AsyncIterableIterator<unknown>).next()
  }
}

test('without an API there is no page to name', () => {
  assert.equal(StaticError.of('closed').docUrl, undefined)
})
