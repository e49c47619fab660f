/** What is on disk of messages that were settled and sent: with a history until it is erased, and without one nothing. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import { copyOf, decrypted, filesHolding, ringRecords } from '../store/support.ts'
import { code, NAME, take, text, TestSystem } from '../support/test-system.ts'

const canaryOf = (): string => randomBytes(24).toString('hex')

/** Whether someone with the agent's key can read the text in its files. Nothing is left to write. */
async function holds(directory: string, words: string): Promise<boolean> {
  const copy = copyOf(directory)
  const pages = Buffer.concat([await decrypted(copy), ...(await ringRecords(copy)).map(({ changes }) => changes)])
  return pages.includes(words)
}

const textsOf = async (channel: Channel): Promise<string[]> =>
  (await channel.history()).map(({ payload }) => text(payload)).toReversed()

test('messages are in the history until it is erased, and then in no file', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let alice = await world.agent('alice', { history: { days: 1 } })
  const bob = await world.agent('bob', { account: null })
  const [a, b] = await world.channel(alice, [bob])
  const [sent, received, later] = [canaryOf(), canaryOf(), canaryOf()]
  const talk = async (channel: Channel): Promise<void> => {
    await channel.send(sent)
    await b!.send(received)
    await take(channel, 1)
  }
  await talk(a!)
  await take(b!, 1)
  assert.deepEqual(await textsOf(a!), [sent, received])
  const [own, his] = (await a!.history()).toReversed()
  assert.deepEqual([own!.own, own!.sender.agentId, text(own!.sender.identity)], [true, alice.agentId, 'alice'])
  assert.deepEqual([his!.own, his!.sender.agentId, his!.kind, his!.file], [false, bob.agentId, 'payload', undefined])
  const directory = world.directoryOf('alice')
  await alice.close()
  assert.deepEqual([await holds(directory, sent), await holds(directory, received)], [true, true])
  // Encrypted.
  assert.deepEqual(filesHolding(directory, [Buffer.from(sent), Buffer.from(received)]), [])

  alice = await world.agent('alice')
  const channel = alice.channel(NAME)
  assert.deepEqual(await textsOf(channel), [sent, received])
  await channel.eraseHistory()
  assert.deepEqual([await holds(directory, sent), await holds(directory, received)], [false, false])
  assert.deepEqual(await textsOf(channel), [])
  await channel.send(later)
  assert.deepEqual(await textsOf(channel), [later])
  await alice.eraseHistory()
  assert.equal(await holds(directory, later), false)
  await channel.send(later)
  await alice.close()

  // The rule ends at the next start, and what it has kept.
  assert.equal(await holds(directory, later), true)
  alice = await world.agent('alice', { history: false })
  assert.equal(await holds(directory, later), false)
  assert.deepEqual(await textsOf(alice.channel(NAME)), [])
  // What is deleted with its channel.
  await alice.close()
  alice = await world.agent('alice', { history: { days: 365 } })
  await talk(alice.channel(NAME))
  await alice.channel(NAME).delete()
  await alice.close()
  assert.deepEqual([await holds(directory, sent), await holds(directory, received)], [false, false])
})

test('a history goes with the channel that its agent leaves, in steps before it', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const alice = await world.agent('alice')
  const written: string[] = []
  const bob = await world.agent('bob', {
    account: null,
    history: { days: 30 },
    store: (store) => {
      const write = store.write.bind(store)
      store.write = (changes) => {
        written.push(changes.map(({ type }) => type).join(' '))
        write(changes)
      }
      return store
    },
  })
  const [a, b] = await world.channel(alice, [bob])
  const [sent, received] = [canaryOf(), canaryOf()]
  await a!.send(received)
  await take(b!, 1)
  await b!.send(sent)
  await b!.leave()
  const [erased, dropped] = ['dropKept dropKept', 'dropChannel'].map((types) => written.indexOf(types))
  assert.ok(erased !== undefined && dropped !== undefined && erased >= 0 && erased < dropped, written.join(', '))
  await bob.close()
  const directory = world.directoryOf('bob')
  assert.deepEqual([await holds(directory, sent), await holds(directory, received)], [false, false])
})

test('an agent without the option keeps nothing that was settled or sent', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const alice = await world.agent('alice')
  const bob = await world.agent('bob', { account: null })
  const [a, b] = await world.channel(alice, [bob])
  const [sent, received] = [canaryOf(), canaryOf()]
  await a!.send(sent)
  await b!.send(received)
  await take(a!, 1)
  assert.deepEqual(await a!.history(), [])
  await alice.close()
  const directory = world.directoryOf('alice')
  assert.deepEqual([await holds(directory, sent), await holds(directory, received)], [false, false])
})

test('options of a page are checked', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const channel = await (await world.agent('alice')).createChannel(NAME)
  await assert.rejects(channel.history({ limit: 0 }), code('invalid_request', /`limit` is 0/))
  await assert.rejects(channel.history({ limit: 1001 }), code('invalid_request', /`limit` is 1001/))
  await assert.rejects(channel.history({ before: 1.5 }), code('invalid_request', /`before` is 1.5/))
})
