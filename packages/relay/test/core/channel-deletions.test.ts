/** Channels that the API names are deleted, if the account of the request owns them, and their members hear it. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type ChannelDeletion, StaticError, toHex } from '@static/protocol'
import { Agent } from '@static/testkit/agent'
import { channelDeletions } from '../../src/api/channel-deletions.ts'
import { openMemoryRelay } from '../support/memory-relay.ts'

const NAME = 'acme/x/y'

test('a channel whose owner is gone is deleted for its members, and no channel of another account', async (t) => {
  const world = await openMemoryRelay(t)
  const asked: ChannelDeletion[] = []
  const reported: string[] = []
  const deletions = channelDeletions({
    source: {
      deletions: async (relay) => (assert.equal(relay, 'f00d'), asked.splice(0)),
      reportDeletion: async (id, _relay, deleted) => reported.push(`${id} ${deleted}`),
    },
    store: world.store,
    relayId: 'f00d',
    onError: (error) => world.errors.push(error),
  })
  const enter = (account: string): Promise<Agent> =>
    Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token(account) })
  const [alice, bob] = [await enter('acme'), await enter('other')]
  const own = toHex(await alice.createChannel(NAME))
  const foreign = toHex(await bob.createChannel(NAME))
  const requested = new Date(world.now()).toISOString()
  const of = { account_id: 'acme', mode: 'live', name: NAME, channel_id: null, requested_at: requested } as const
  asked.push(
    { ...of, id: 'foreign', channel_id: foreign },
    { ...of, id: 'test', mode: 'test' },
    { ...of, id: 'misnamed', name: 'acme/x/z', channel_id: own },
    { ...of, id: 'none', name: 'acme/x/z' },
  )
  await deletions.round()
  assert.deepEqual(reported.splice(0), ['foreign false', 'test false', 'misnamed false', 'none false'])

  asked.push({ ...of, id: 'own', channel_id: own })
  await deletions.round()
  assert.deepEqual(reported.splice(0), ['own true'])
  assert.equal((await alice.next('channelDeleted')).name, NAME)

  await world.advance(1)
  await alice.createChannel(NAME)
  asked.push({ ...of, id: 'earlier' }, { ...of, id: 'no time', requested_at: '' })
  await deletions.round()
  assert.deepEqual(reported.splice(0), ['earlier false', 'no time false'], 'it meant the one before')
  asked.push({ ...of, id: 'by name', requested_at: new Date(world.now()).toISOString() })
  await deletions.round()
  assert.deepEqual(reported, ['by name true'])
  // Still there.
  await bob.request('deleteChannel', { channel: { case: 'name', value: NAME } })
})

test('a deletion whose report was lost is reported again, although the channel is gone by then', async (t) => {
  const world = await openMemoryRelay(t)
  const requested = new Date(world.now()).toISOString()
  const asked: readonly ChannelDeletion[] = [
    { id: 'own', account_id: 'acme', mode: 'live', name: NAME, channel_id: null, requested_at: requested },
  ]
  const answers = [StaticError.of('unavailable'), undefined]
  const reported: string[] = []
  const deletions = channelDeletions({
    source: {
      deletions: () => Promise.resolve(asked),
      reportDeletion: async (id, _relay, deleted) => {
        const failure = answers.shift()
        if (failure) throw failure
        reported.push(`${id} ${deleted}`)
      },
    },
    store: world.store,
    relayId: 'f00d',
    onError: (error) => world.errors.push(error),
  })
  const alice = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  await alice.createChannel(NAME)
  for (let round = 0; round < 2; round++) await deletions.round()
  assert.deepEqual(reported.splice(0), ['own true'])
  await deletions.round()
  assert.deepEqual(reported, ['own false'], 'it is reported once')
})

test('while the API or the store is down nothing is lost, and only a bug is reported', async (t) => {
  const world = await openMemoryRelay(t)
  const errors: unknown[] = []
  let failure: Error = StaticError.of('unavailable')
  const deletions = channelDeletions({
    source: { deletions: () => Promise.reject(failure), reportDeletion: () => Promise.resolve() },
    store: world.store,
    relayId: 'f00d',
    onError: (error) => errors.push(error),
  })
  await deletions.round()
  assert.deepEqual(errors, [])
  failure = new Error('a bug')
  await deletions.round()
  assert.deepEqual(errors, [failure])
})

test('a deletion that fails does not block those after it, and a round has at most 64', async () => {
  const errors: unknown[] = []
  const carriedOut: string[] = []
  const requested = new Date().toISOString()
  const asked = Array.from({ length: 100 }, (_, at): ChannelDeletion => {
    return { id: String(at), account_id: 'acme', mode: 'live', name: NAME, channel_id: null, requested_at: requested }
  })
  const deletions = channelDeletions({
    source: {
      deletions: () => Promise.resolve(asked),
      reportDeletion: async (id) => {
        if (id === '0') throw new Error('a damaged row')
        carriedOut.push(id)
      },
    },
    store: { run: (() => Promise.resolve({ done: true })) as never },
    relayId: 'f00d',
    onError: (error) => errors.push(error),
  })
  await deletions.round()
  assert.deepEqual(
    carriedOut,
    asked.slice(1, 64).map(({ id }) => id),
  )
  assert.equal(String(errors), 'Error: a damaged row')
})
