/** What is in a channel's history: what was settled and what was sent, in the order of the log, once each. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { StaticError, toHex } from '@static/protocol'
import type { Answers } from '../../src/channel/asking/serving.ts'
import { serveRequests } from '../../src/channel/asking/serving.ts'
import { handleMessages } from '../../src/channel/receiving/handling.ts'
import type { InboxEntry } from '../../src/channel/receiving/inbox.ts'
import { encodeFile } from '../../src/files/file-frame.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import type { Change, KeptRecord } from '../../src/ports/index.ts'
import { type Player, Stage } from '../support/stage.ts'

const DAY = 24 * 3_600_000
const KEEPS = { history: { days: 30 } } as const
const SECRET = new Uint8Array(32).fill(0x5e)

async function pair(): Promise<{ stage: Stage; ann: Player; bob: Player }> {
  const stage = await Stage.start(['ann', 'bob'], { players: { bob: KEEPS } })
  return { stage, ann: stage.player('ann'), bob: stage.player('bob') }
}

const textOf = ({ payload }: Pick<KeptRecord, 'payload'>): string => Buffer.from(payload).toString()

/** What is kept on disk, the oldest first. */
function kept({ journal, channel }: Player): readonly KeptRecord[] {
  journal.flush()
  return channel.kept.page(undefined, 1000).toReversed()
}

const texts = (player: Player): string[] => kept(player).map(textOf)

async function next(reader: AsyncIterator<InboxEntry, undefined>): Promise<InboxEntry> {
  const { value } = await reader.next()
  return value ?? assert.fail('the end')
}

function serves(player: Player, handler: (words: string) => Answers): () => Promise<void> {
  const stop = new AbortController()
  const serving = serveRequests(player, player.channel, () => handler(''), { signal: stop.signal })
  return async () => {
    stop.abort()
    await serving
  }
}

test('settled and sent messages are kept in the order of the log, with packs, and across a restart', async () => {
  const { stage, ann, bob } = await pair()
  const sent: { messageId: string; index: number }[] = []
  for (const [player, ...words] of [
    [ann, 'a1'],
    [bob, 'b1'],
    [ann, 'a2', 'a3', 'a4'],
    [bob, 'b2', 'b3'],
    [ann, 'a5'],
  ] as const) {
    const sending = Promise.all(words.map((text) => player.send(text)))
    await stage.settle()
    sent.push(...(await sending))
  }
  // Sent, and of ann nothing is settled yet.
  assert.deepEqual(texts(bob), ['b1', 'b2', 'b3'])
  assert.equal((await bob.take()).length, 5)
  assert.deepEqual(texts(bob), ['a1', 'b1', 'a2', 'a3', 'a4', 'b2', 'b3', 'a5'])
  const again = bob.restart()
  await stage.settle()
  const found = kept(again)
  assert.deepEqual(
    found.map(({ messageId, index }) => ({ messageId: toHex(messageId), index })),
    sent,
  )
  for (const { sender, identity, kind, payload } of found) {
    const name = textOf({ payload }).startsWith('a') ? 'ann' : 'bob'
    const expected = [stage.player(name).agentId, name, 'payload']
    assert.deepEqual([sender, Buffer.from(identity).toString(), kind], expected)
  }
  // An agent without the option has nothing.
  assert.deepEqual(kept(ann), [])
})

test('requests, answers and files are kept, each at both ends', async () => {
  const stage = await Stage.start(['ann', 'bob'], { players: { ann: KEEPS, bob: KEEPS } })
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const stop = serves(bob, async function* () {
    yield 'one'
    await setImmediate()
    yield 'two'
  })
  const question = { payload: Buffer.from('how many?'), lifetimeMs: DAY, signal: undefined }
  const ask = ann.channel.asks.ask({ ...question, to: bob.agentId })
  const answers: string[] = []
  const reading = (async () => {
    for (let entry = await ask.next(); entry; entry = await ask.next())
      answers.push('payload' in entry.content ? textOf(entry.content) : entry.content.error.code)
  })()
  await stage.settleWithPrograms()
  await reading
  await stop()
  const about = { fileId: new Uint8Array(16), secret: SECRET, size: 7, name: 'plan\u202E.pdf', type: 'text/plain' }
  const file = encodeFile({ ...about, text: 'see plan', digests: new Uint8Array(32) })
  void ann.channel.sender.send('file', file, {})
  await stage.settle()
  await bob.take()
  for (const player of [ann, bob]) {
    const found = kept(player)
    assert.deepEqual(
      found.map((record) => `${record.kind} ${textOf(record)}`),
      ['request how many?', 'answer one', 'answer two', 'file see plan'],
    )
    const [request, one, , sent] = found
    assert.deepEqual(toHex(request!.messageId), ask.id)
    assert.deepEqual(toHex(one!.requestId!), ask.id)
    assert.deepEqual([sent!.fileName, sent!.fileSize, sent!.fileType], [about.name, 7, 'text/plain'])
    // Without its secret.
    for (const record of found)
      for (const value of Object.values(record)) assert.ok(!Buffer.from(String(value)).includes(Buffer.from(SECRET)))
  }
})

test('only what the application has settled is kept: no failed handler, no cancelled request, no unread answer', async () => {
  const { stage, ann, bob } = await pair()
  const failing = new AbortController()
  const handling = handleMessages(
    bob,
    bob.channel,
    () => {
      throw new Error('no')
    },
    { signal: failing.signal },
  )
  void ann.send('not handled')
  // Nobody serves: the first is cancelled, the second expires.
  const question = { payload: Buffer.from('?'), to: bob.agentId, signal: undefined }
  const cancelled = ann.channel.asks.ask({ ...question, lifetimeMs: DAY })
  ann.channel.asks.ask({ ...question, lifetimeMs: 1000 })
  await stage.settleWithPrograms()
  cancelled.cancel()
  await stage.advance(120_000)
  failing.abort()
  await handling
  assert.deepEqual(texts(bob), [])
  // Bob asks, and does not read the answer before he cancels.
  const stop = serves(ann, () => Promise.resolve('unread'))
  const own = bob.channel.asks.ask({ ...question, to: ann.agentId, lifetimeMs: DAY })
  await stage.settleWithPrograms()
  own.cancel()
  await stage.settleWithPrograms()
  await stop()
  assert.deepEqual(texts(bob), ['?'])
})

test('a message put aside is kept once it is retried and settled, and not if it is dropped', async () => {
  const { stage, ann, bob } = await pair()
  for (const text of ['bad', 'worse', 'good']) await Promise.all([ann.sendAlone(text), stage.settle()])
  const reader = bob.channel.inbox.read((entry) => entry)
  for (let count = 0; count < 2; count++) assert.ok(bob.channel.poison.put(await next(reader), 'cannot'))
  await next(reader)
  await reader.return?.()
  assert.deepEqual(await bob.take(), ['good'])
  assert.deepEqual(texts(bob), ['good'])
  const again = bob.restart()
  await stage.settle()
  const { poison } = again.channel
  const [bad, worse] = poison.list().map(({ record }) => toHex(record.messageId))
  await Promise.all([poison.retry(bad!), poison.drop(worse!)])
  assert.deepEqual(texts(again), ['good'])
  assert.deepEqual(await again.take(), ['bad'])
  assert.deepEqual(texts(again), ['bad', 'good'])
})

test('what is delivered again is kept when it is settled, once', async () => {
  const { stage, ann, bob } = await pair()
  for (const text of ['1', '2', '3']) await Promise.all([ann.sendAlone(text), stage.settle()])
  bob.journal.flush()
  const reader = bob.channel.inbox.read((entry) => entry)
  await next(reader)
  // Settles the first, which the disk does not hear before the agent is killed.
  await next(reader)
  const again = bob.restart()
  await stage.settle()
  assert.deepEqual(texts(again), [])
  assert.deepEqual(await again.take(), ['1', '2', '3'])
  assert.deepEqual(texts(again), ['1', '2', '3'])
})

test('a message that is settled before it was ever written is kept in the write that moves past it', async () => {
  const { stage, ann, bob } = await pair()
  const reader = bob.channel.inbox.read((entry) => entry)
  void (async () => {
    while ((await reader.next()).done !== true);
  })()
  await stage.settle()
  const writes: Change[][] = []
  const write = bob.store.write.bind(bob.store)
  bob.store.write = (changes) => {
    writes.push([...changes])
    write(changes)
  }
  const [{ index }] = await Promise.all([ann.sendAlone('1'), stage.settle()])
  const typesOf = (changes: readonly Change[]): string[] => changes.map(({ type }) => type)
  assert.ok(!writes.flatMap(typesOf).includes('putInbox'))
  const [keeping] = writes.filter((changes) => typesOf(changes).includes('putKept'))
  const moved = keeping?.find((change) => change.type === 'putChannel') ?? assert.fail('not in the same write')
  assert.equal(moved.record.position.index, index)
  assert.deepEqual(texts(bob), ['1'])
})

test('a message whose answer was lost with the agent is kept once, at its place in the log', async () => {
  const { stage, bob } = await pair()
  void bob.send('once').catch(() => {})
  bob.journal.flush()
  assert.deepEqual(texts(bob), [])
  // The relay has it, and bob does not know.
  const again = bob.restart(1)
  await stage.settle()
  assert.deepEqual(
    kept(again).map(({ index, payload }) => [index, textOf({ payload })]),
    [[stage.position.index, 'once']],
  )
})

test('the relay cannot put a message of this agent in the place of another', async () => {
  const { stage, ann, bob } = await pair()
  const hers = Promise.all([ann.sendAlone('hers'), stage.settle()])
  const [{ index }] = await hers
  await bob.take()
  const own = bob.channel.kept
  const lied = { messageId: new Uint8Array(16), counter: 1, control: false, slot: 0, fileId: undefined }
  void bob.send('mine').catch(() => {})
  bob.journal.flush()
  const [record] = bob.store.load().channels[0]?.outbox ?? []
  bob.journal.add(...own.sent({ ...lied, ...record! }, index))
  assert.deepEqual(texts(bob).toSorted(), ['hers', 'mine'])
  // Nor at a place that the database cannot hold.
  assert.deepEqual(own.sent(record!, 2 ** 60), [])
})

test('what an abandoned channel has read ahead of the disk is not kept, because it is delivered again', async () => {
  const { stage, ann, bob } = await pair()
  await Promise.all([ann.sendAlone('before'), stage.settle()])
  await bob.take()
  const [record] = kept(bob)
  const waiting = bob.channel.inbox.read((entry) => entry)
  const first = waiting.next()
  bob.channel.committer.commit(() => ({})).catch(() => {})
  await bob.channel.idle()
  const { state } = inside(bob.channel.group?.group ?? assert.fail())
  Object.defineProperty(state, 'confirmationTag', { value: null })
  const { index } = bob.channel.history.position
  const ahead = { ...record!, index: index + 1, part: 0, epoch: 1, attempts: 0 }
  const nothing = new Uint8Array()
  bob.channel.inbox.arrive({
    record: { ...ahead, ciphertext: nothing, messageKey: nothing },
    payload: Buffer.from('ahead'),
    redelivered: false,
  })
  bob.journal.flush()
  const entry = (await first).value ?? assert.fail()
  bob.channel.inbox.settle(entry)
  assert.equal(bob.channel.failure?.code, 'mls_error')
  assert.deepEqual(texts(bob), ['before'])
})

test('without the option nothing is kept, and nothing is read or written for it', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const write = bob.store.write.bind(bob.store)
  bob.store.write = (changes) => {
    for (const { type } of changes) assert.ok(!/Kept|Keeping/.test(type), type)
    write(changes)
  }
  bob.store.kept = bob.store.keptSizes = () => assert.fail('read')
  for (const text of ['1', '2']) await Promise.all([ann.sendAlone(text), bob.sendAlone(text), stage.settle()])
  assert.deepEqual(await bob.take(), ['1', '2'])
  for (let hour = 0; hour < 48; hour++) {
    stage.now += DAY / 24
    bob.keeping.tick(stage.now, [bob.channel])
  }
  await setImmediate()
  assert.deepEqual(kept(bob), [])
})

test('a page has what was asked for, with whole packs, and the rest follows', async () => {
  const { stage, ann, bob } = await pair()
  for (let count = 0; count < 5; count++) {
    const sending = Promise.all(['x', 'y', 'z'].map((text) => ann.send(`${text}${count}`)))
    await stage.settle()
    await sending
  }
  await bob.take()
  bob.journal.flush()
  const read: string[][] = []
  for (let before: number | undefined; ;) {
    const page = bob.channel.kept.page(before, 4)
    if (page.length === 0) break
    read.push(page.map(textOf))
    before = page.at(-1)?.index
  }
  assert.deepEqual(read, [
    ['z4', 'y4', 'x4', 'z3', 'y3', 'x3'],
    ['z2', 'y2', 'x2', 'z1', 'y1', 'x1'],
    ['z0', 'y0', 'x0'],
  ])
})

test('the rule is the agent’s: it is kept across restarts, changed, and its end erases', async () => {
  const { stage, ann, bob } = await pair()
  await Promise.all([ann.sendAlone('1'), stage.settle()])
  await bob.take()
  assert.deepEqual([texts(bob), bob.store.load().keepingDays], [['1'], 30])
  // A program that says nothing follows the rule.
  const silent = bob.restart(0, {})
  await stage.settle()
  await Promise.all([ann.sendAlone('2'), stage.settle()])
  await silent.take()
  assert.deepEqual([texts(silent), silent.store.load().keepingDays], [['1', '2'], 30])
  const ended = silent.restart(0, { history: false })
  await ended.keeping.ready
  await stage.settle()
  await Promise.all([ann.sendAlone('3'), stage.settle()])
  await ended.take()
  ended.journal.flush()
  assert.deepEqual(ended.store.keptSizes(ended.channel.id, 2 ** 50, 10), [])
  assert.deepEqual([texts(ended), ended.store.load().keepingDays], [[], undefined])
  // What was left by a program that was killed while it erased is erased before anything is kept.
  const on = ended.restart(0, { history: { days: 7 } })
  await stage.settle()
  await Promise.all([ann.sendAlone('4'), stage.settle()])
  await on.take()
  on.journal.add({ type: 'putKeeping', days: 0 })
  on.journal.flush()
  const last = on.restart(0, { history: { days: 8 } })
  await last.keeping.ready
  await stage.settle()
  assert.deepEqual([texts(last), last.store.load().keepingDays], [[], 8])
})

test('a quarter of the limits starts a sweep at once, without the timer', async () => {
  const { stage, ann, bob } = await pair()
  await Promise.all([ann.sendAlone('1'), stage.settle()])
  const { value: entry } = await bob.channel.inbox.read((each) => each).next()
  let sweeps = 0
  const keptSizes = bob.store.keptSizes.bind(bob.store)
  bob.store.keptSizes = (...of) => {
    sweeps++
    return keptSizes(...of)
  }
  const payload = new Uint8Array(256 * 1024)
  for (let index = 1; index <= 64; index++) bob.channel.kept.received({ ...entry!.record, index }, { payload })
  for (let turn = 0; turn < 5; turn++) await setImmediate()
  assert.equal(sweeps, 1)
})

test('errors of reading reach the caller, and a sweep tries again', async () => {
  const { stage, ann, bob } = await pair()
  await Promise.all([ann.sendAlone('1'), stage.settle()])
  await bob.take()
  bob.journal.flush()
  bob.store.keptSizes = () => {
    throw StaticError.of('store_corrupt', 'agent.db is damaged.')
  }
  stage.now += 31 * DAY
  bob.keeping.tick(stage.now, [bob.channel])
  await setImmediate()
  await assert.rejects(bob.keeping.eraseAll(), { code: 'store_corrupt' })
  Reflect.deleteProperty(bob.store, 'keptSizes')
  // Hidden before they are deleted.
  assert.deepEqual(texts(bob), [])
  assert.equal(bob.store.keptSizes(bob.channel.id, 2 ** 50, 10).length, 1)
  stage.now += DAY
  bob.keeping.tick(stage.now, [bob.channel])
  for (let turn = 0; turn < 5; turn++) await setImmediate()
  bob.journal.flush()
  assert.equal(bob.store.keptSizes(bob.channel.id, 2 ** 50, 10).length, 0)
})
