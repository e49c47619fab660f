/** A channel whose state cannot be put into bytes, or read from them: it breaks alone, and can be left. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseChannelName, StaticError } from '@static/protocol'
import { newChannel } from '../../src/agent/founding.ts'
import { AgentChannel } from '../../src/channel/channel.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import type { Change, StoredChannel } from '../../src/ports/index.ts'
import { type Player, Stage } from '../support/stage.ts'

const NOWHERE = { index: 0, hash: new Uint8Array(), slot: 0 }

/** Another channel of the same agent, without a group. */
function beside(player: Player, digit: string): AgentChannel {
  const name = parseChannelName(`acme/other/${digit === 'a' ? 'first' : 'last'}`)
  return new AgentChannel(player, newChannel(digit.repeat(32), name, player.agentId, 'offered', NOWHERE), () => {})
}

/** The real group of a player, changed so that it cannot be encoded. */
function poison({ channel }: Player): void {
  const { state } = inside(channel.group?.group ?? assert.fail())
  Object.defineProperty(state, 'confirmationTag', { value: null })
}

/** What is stored of the player's channel; the inbox apart. */
function stored({ store, channel }: Player): StoredChannel {
  return store.load().channels.find(({ record }) => record.id === channel.id) ?? assert.fail()
}

/** Everything that was written, from now on. */
function watch({ store }: Player): Change[][] {
  const writes: Change[][] = []
  const write = store.write.bind(store)
  store.write = (changes) => {
    writes.push([...changes])
    write(changes)
  }
  return writes
}

test('a group that cannot be encoded breaks only its channel: nothing of it is written, the others are', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const bob = stage.player('bob')
  const words = stage.player('ann').send('before')
  await stage.settle()
  await words
  const before = stored(bob)
  const writes = watch(bob)
  const [first, last] = [beside(bob, 'a'), beside(bob, 'b')]
  first.keepWelcome(new Uint8Array([1]))
  bob.channel.keepWelcome(new Uint8Array([2]))
  // As after a commit: the group is written whole.
  bob.channel.committer.commit(() => ({})).catch(() => {})
  await bob.channel.idle()
  poison(bob)
  last.keepWelcome(new Uint8Array([3]))
  bob.journal.flush()
  assert.equal(writes.length, 1)
  assert.deepEqual(
    writes[0]!
      .filter(({ type }) => type !== 'putChain')
      .map((change) => ('id' in change ? `${change.type} ${change.id[0]}` : change.type)),
    ['putChannel', 'putWelcome a', 'putChannel', 'putWelcome b', 'putChannel'],
  )
  assert.deepEqual(stored(bob), { ...before, record: { ...before.record, broken: 'mls_error' } })
  assert.equal(bob.channel.failure?.code, 'mls_error')
  assert.match(bob.told('channel_failed')[0]?.error.message ?? '', /cannot be stored/)
  assert.deepEqual([first.failure, last.failure], [undefined, undefined])
  await assert.rejects(bob.send('x'), { code: 'mls_error' })
  // What was received can be read, and its row goes.
  assert.equal(before.inbox.messages, 1)
  const reading = bob.channel.inbox.read(({ payload }) => Buffer.from(payload).toString())
  assert.equal((await reading.next()).value, 'before')
  await assert.rejects(reading.next(), { code: 'mls_error' })
  bob.journal.flush()
  assert.equal(stored(bob).inbox.messages, 0)
})

test('received messages that cannot be read end only their channel until the agent restarts, and stay on disk', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const words = ann.send('before')
  await stage.settle()
  await words
  const again = bob.restart()
  await stage.settle()
  // The last one on disk: a restart takes the first.
  const other = beside(again, 'f')
  const { store } = again
  store.inbox = () => {
    throw StaticError.of('store_corrupt', 'agent.db is damaged.')
  }
  const reading = again.channel.inbox.read(({ payload }) => Buffer.from(payload).toString())
  await assert.rejects(reading.next(), { code: 'store_corrupt' })
  assert.deepEqual(
    again.told('channel_failed').map(({ error }) => error.message),
    ['agent.db is damaged.'],
  )
  await assert.rejects(again.send('x'), { code: 'store_corrupt' })
  other.keepWelcome(new Uint8Array([1]))
  await again.journal.written()
  assert.equal(other.failure, undefined)
  assert.equal(stored(again).record.broken, undefined)
  Reflect.deleteProperty(store, 'inbox')
  const healed = again.restart()
  await stage.settle()
  const texts = healed.channel.inbox.read(({ payload }) => Buffer.from(payload).toString())
  assert.equal((await texts.next()).value, 'before')
})

test('a turn that settles more messages than fit on the call stack is written', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const { channel, journal, store } = stage.player('bob')
  const { id, inbox } = channel
  const settled = Array.from({ length: 200_000 }, (_, index): Change => ({
    type: 'dropInbox',
    id,
    place: { index, part: 0 },
  }))
  Object.defineProperty(inbox, 'drain', { value: () => settled.splice(0) })
  const written: number[] = []
  store.write = (changes) => void written.push(changes.filter(({ type }) => type === 'dropInbox').length)
  channel.keepWelcome(new Uint8Array([1]))
  journal.flush()
  assert.equal(channel.failure, undefined)
  assert.deepEqual(written, [200_000])
})

test('a commit that leads to an unencodable group: the member stays where it was, broken, even after a restart', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const before = stored(bob)
  // The next epoch that bob comes to is poisoned.
  Object.defineProperty(bob, 'engine', {
    value: {
      ...bob.engine,
      encodeGroup: () => {
        throw new RangeError('Maximum call stack size exceeded')
      },
    },
  })
  const rotated = ann.channel.upkeep.rekey()
  await stage.settle()
  await rotated
  assert.equal(bob.view, 'mls_error')
  assert.deepEqual(stored(bob), { ...before, record: { ...before.record, broken: 'mls_error' } })
  // Nothing of it was acknowledged.
  assert.equal(bob.cursor, before.record.position.index)
  const again = bob.restart()
  await stage.settle()
  assert.equal(again.view, 'mls_error')
  assert.deepEqual(again.told('channel_failed'), [])
  // The others go on.
  const sent = ann.send('alone')
  await stage.settle()
  await sent
})

test('a crash before the broken channel is written: it breaks again at the same position', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const before = stored(bob)
  const poisoned = {
    ...bob.engine,
    encodeGroup: (): never => {
      throw new TypeError('poisoned')
    },
  }
  Object.defineProperty(bob, 'engine', { value: poisoned })
  const rotated = ann.channel.upkeep.rekey()
  await stage.settleOnly(ann)
  await rotated
  // The disk is gone before the end of the turn.
  bob.store.write = () => {}
  await stage.settle()
  assert.equal(bob.view, 'mls_error')
  Reflect.deleteProperty(bob.store, 'write')
  assert.deepEqual(stored(bob), before)
  const again = bob.restart()
  Object.defineProperty(again, 'engine', { value: poisoned })
  await stage.settle()
  assert.equal(again.view, 'mls_error')
  assert.equal(stored(again).record.broken, 'mls_error')
})

test('in its first turn, a channel whose state cannot be stored is stored as broken', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const bob = stage.player('bob')
  const id = 'c'.repeat(32)
  const channel = new AgentChannel(
    bob,
    newChannel(id, parseChannelName('acme/other/new'), bob.agentId, 'offered', NOWHERE),
    () => {},
  )
  const { group, facts } = bob.channel.group ?? assert.fail()
  const position = { index: 7, hash: new Uint8Array(32), slot: 3 }
  channel.enter({ group, rows: [], signer: facts.own }, 'joined', position, new Uint8Array(32))
  poison(bob)
  bob.journal.flush()
  const found = bob.store.load().channels.find(({ record }) => record.id === id)
  assert.deepEqual([found?.record.state, found?.record.broken, found?.epoch], ['joined', 'mls_error', undefined])
  // It can be left: everything about it goes.
  channel.become('leaving')
  bob.journal.flush()
  assert.equal(bob.store.load().channels.find(({ record }) => record.id === id)?.record.state, 'leaving')
  channel.drop(undefined)
  bob.journal.flush()
  assert.equal(
    bob.store.load().channels.some(({ record }) => record.id === id),
    false,
  )
})

test('a stored group that cannot be read breaks only its channel, which is stored as broken and can be deleted by the owner', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const ann = stage.player('ann')
  const { id } = ann.channel
  ann.store.write([{ type: 'putGroup', id, group: new Uint8Array([1, 2, 3]) }])
  const again = ann.restart()
  assert.equal(again.view, 'mls_error')
  const other = beside(again, 'a')
  other.keepWelcome(new Uint8Array([1]))
  again.journal.flush()
  assert.equal(stored(again).record.broken, 'mls_error')
  assert.equal(other.failure, undefined)
  again.channel.over('not_found')
  again.journal.flush()
  assert.deepEqual([stored(again).record.state, stored(again).epoch], ['ended', undefined])
})

test('an exception after the turn is on disk breaks only its channel, and the others learn that theirs is', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const bob = stage.player('bob')
  const other = beside(bob, 'a')
  let told = 0
  other.receipts.written = () => void told++
  bob.channel.receipts.written = () => {
    throw new RangeError('offset is out of bounds')
  }
  bob.channel.keepWelcome(new Uint8Array([1]))
  other.keepWelcome(new Uint8Array([2]))
  bob.journal.flush()
  assert.equal(bob.view, 'mls_error')
  assert.deepEqual([other.failure, told], [undefined, 1])
  await assert.rejects(bob.send('x'), { code: 'mls_error' })
  bob.journal.flush()
  assert.equal(stored(bob).record.broken, 'mls_error')
})

test('a stored group that cannot be read breaks its channel alone, even with a request on disk that waits to be served', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  ann.channel.asks.ask({ payload: new Uint8Array(1), to: bob.agentId, lifetimeMs: 600_000, signal: undefined })
  await stage.settle()
  assert.equal(bob.store.requests(bob.channel.id, 0, 1).length, 1)
  bob.store.write([{ type: 'putGroup', id: bob.channel.id, group: new Uint8Array([1, 2, 3]) }])
  const again = bob.restart()
  assert.equal(again.view, 'mls_error')
  again.journal.flush()
  assert.equal(stored(again).record.broken, 'mls_error')
})
