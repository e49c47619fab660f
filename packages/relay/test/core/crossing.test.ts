/** What crosses on its way between agents, core and store: the core alone, with every moment in the test's hands. */
import { create } from '@bufbuild/protobuf'
import { toHex } from '@static/protocol'
import { AckRequestSchema } from '@static/protocol/relay'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { makeKey } from '@static/testkit/agent'
import { PureRelay } from '../support/pure-relay.ts'

test('an entry that is appended while an agent resumes is delivered', async () => {
  const pure = await PureRelay.make()
  const key = await pure.session(1)
  const agent = toHex(key.id)
  const channel = 'c0'.repeat(16)
  const account = { id: 'acme', mode: 'live' } as const
  const actor = { agent, account }
  const { now } = pure
  const founding = { actor, channel, name: 'a/b/c', welcome: randomBytes(9), guestLimit: 9, maxChannels: 9, now }
  await pure.store.run('create', founding)
  pure.receive(1, { case: 'resume', value: {} })
  const resumed = await pure.execute('resume')
  const ciphertext = randomBytes(9)
  const message = { actor, channel, slot: 0, messageId: randomBytes(16), counter: 1, control: false, ciphertext }
  await pure.store.run('append', { ...message, paid: account, now })
  resumed()
  await pure.settle()
  assert.deepEqual(pure.cases(1).slice(-2), ['resume', 'deliverMessage'])
})

test('a Welcome that arrives while an agent resumes for the first time is delivered', async () => {
  const pure = await PureRelay.make()
  const key = await pure.session(1)
  const account = { id: 'acme', mode: 'live' } as const
  const actor = { agent: 'a0'.repeat(32), account }
  const channel = 'c0'.repeat(16)
  const { now } = pure
  const founding = { actor, channel, name: 'a/b/c', welcome: randomBytes(9), guestLimit: 9, maxChannels: 9, now }
  await pure.store.run('create', founding)
  pure.receive(1, { case: 'resume', value: {} })
  const resumed = await pure.execute('resume')
  const declaration = { adds: [key.id], removes: [], leaveNotices: [], vouches: [], signature: randomBytes(64) }
  const nothing = new Uint8Array()
  const welcomes = [{ agent: toHex(key.id), welcome: randomBytes(9), inviteId: nothing, tag: nothing }]
  const commit = {
    actor,
    channel,
    slot: 0,
    messageId: randomBytes(16),
    commit: randomBytes(9),
    declaration,
    welcomes,
    groupInfo: nothing,
    paid: 0,
    maxChannels: 1,
    guestLimit: 9,
    now,
  }
  await pure.store.run('commit', commit)
  resumed()
  await pure.settle()
  assert.deepEqual(pure.cases(1).slice(-2), ['resume', 'deliverWelcome'])
  assert.equal(pure.last(1, 'resume').channels.length, 1, 'and the answer knows of it')
})

test('a second OpenSession is refused while the first one waits for the store', async () => {
  const pure = await PureRelay.make()
  await pure.session(1, makeKey(), false)
  pure.answer(1, makeKey())
  assert.equal(pure.last(1, 'error').code, 'invalid_request')
  await pure.settle()
  pure.handle({ type: 'closed', stream: 1 })
  assert.deepEqual({ ...pure.relay.counts }, { streams: 0, sessions: 0, requests: 0, pending: 0 })
})

test('a read that failed in the store is retried', async () => {
  const pure = await PureRelay.make()
  const key = await pure.session(1)
  const actor = { agent: toHex(key.id), account: { id: 'acme', mode: 'live' } as const }
  const channel = 'c0'.repeat(16)
  const { now } = pure
  const founding = { actor, channel, name: 'a/b/c', welcome: randomBytes(9), guestLimit: 9, maxChannels: 9, now }
  await pure.store.run('create', founding)
  const ciphertext = randomBytes(9)
  const message = { actor, channel, slot: 0, messageId: randomBytes(16), counter: 1, control: false, ciphertext }
  await pure.store.run('append', { ...message, paid: actor.account, now })
  pure.receive(1, { case: 'resume', value: {} })
  ;(await pure.execute('resume'))()
  const [read] = pure.asked.splice(0)
  if (read?.type !== 'store') throw new Error('Nothing was read.')
  pure.handle({ type: 'done', id: read.id, outcome: { ok: false, error: new Error('disk') as never } })
  assert.equal(pure.cases(1).at(-1), 'resume')
  pure.handle({ type: 'tick' })
  await pure.settle()
  assert.equal(pure.cases(1).at(-1), 'deliverMessage')
})

test('an acknowledgement that failed in the store is stored a second later, unless a newer one has come', async () => {
  const pure = await PureRelay.make()
  const key = await pure.session(1)
  const agent = toHex(key.id)
  const actor = { agent, account: { id: 'acme', mode: 'live' } as const }
  const channel = 'c0'.repeat(16)
  const { now } = pure
  const founding = { actor, channel, name: 'a/b/c', welcome: randomBytes(9), guestLimit: 9, maxChannels: 9, now }
  await pure.store.run('create', founding)
  for (const counter of [1, 2]) {
    const message = { slot: 0, messageId: randomBytes(16), counter, control: false, ciphertext: randomBytes(9) }
    await pure.store.run('append', { actor, channel, ...message, paid: actor.account, now })
  }
  pure.receive(1, { case: 'resume', value: {} })
  await pure.settle()
  const acknowledge = (index: bigint): void => {
    const ack = create(AckRequestSchema, { positions: [{ channelId: Buffer.from(channel, 'hex'), index }] })
    pure.handle({ type: 'acknowledged', stream: 1, ack })
  }
  const fail = (): void => {
    const [asked] = pure.asked.splice(0)
    if (asked?.type !== 'store' || asked.name !== 'ack') throw new Error('Nothing was acknowledged.')
    assert.equal(asked.request.positions[0]?.from, 0, 'it is about the membership of the founder')
    pure.handle({ type: 'done', id: asked.id, outcome: { ok: false, error: new Error('disk') as never } })
  }
  const cursor = async (): Promise<unknown> => {
    const { standings } = await pure.store.run('resume', { agent, channels: [channel], after: undefined, limit: 1 })
    return standings.map((standing) => 'cursor' in standing && standing.cursor.index)
  }
  const store = (): void => {
    pure.now += 1000
    pure.handle({ type: 'tick' })
  }
  acknowledge(1n)
  store()
  fail()
  store()
  await pure.settle()
  assert.deepEqual(await cursor(), [1])
  acknowledge(2n)
  store()
  acknowledge(1n)
  fail()
  store()
  await pure.settle()
  assert.deepEqual(await cursor(), [2])
})
