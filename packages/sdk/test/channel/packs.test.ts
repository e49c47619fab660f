/** Packs: payloads of one turn in one message, from `send` to the reader, over kills, refusals and commits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import { GapNoticeSchema } from '@static/protocol/relay'
import { fromHex, type StaticError, toHex } from '@static/protocol'
import { BUCKETS } from '../../src/mls/index.ts'
import type { SentMessage } from '../../src/channel/sending/outbox.ts'
import type { InboxEntry } from '../../src/channel/receiving/inbox.ts'
import { encodePack } from '../../src/channel/sending/pack.ts'
import { encodeFrame } from '../../src/channel/sending/message-frame.ts'
import { Apart } from '../support/apart.ts'
import { type Player, Stage } from '../support/stage.ts'

const words = (count: number, from = 0): string[] => Array.from({ length: count }, (_, n) => `${from + n}`)

/** What becomes of a promise: `ok`, or the code of its error. */
function fate(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'ok',
    ({ code }: StaticError) => code,
  )
}

/** Sends in one turn. */
async function sendAll(stage: Stage, player: Player, texts: readonly string[]): Promise<SentMessage[]> {
  const sending = Promise.all(texts.map((text) => player.send(text)))
  await stage.settle()
  return await sending
}

async function pair(): Promise<{ stage: Stage; ann: Player; bob: Player }> {
  const stage = await Stage.start(['ann', 'bob'], { receipts: 'settled' })
  return { stage, ann: stage.player('ann'), bob: stage.player('bob') }
}

/** The next payload of a reader, which is there. */
async function next(reader: AsyncIterator<InboxEntry, undefined>): Promise<InboxEntry> {
  const taken = reader.next()
  for (let turns = 0; turns < 10; turns++) {
    const found = await Promise.race([taken, setImmediate()])
    if (found) return found.value ?? assert.fail('the end')
  }
  assert.fail('nothing to read')
}

const textOf = ({ payload }: { payload: Uint8Array }): string => Buffer.from(payload).toString()

/** Bytes of the messages of the log, from an index on. */
function sizes(stage: Stage, from: number): number[] {
  return stage.log.slice(from).flatMap((entry) => (entry.kind === 'message' ? [entry.request.ciphertext.length] : []))
}

test('payloads of one turn are one message, and each has an id of its own', async () => {
  const { stage, ann, bob } = await pair()
  const before = stage.log.length
  const sent = await sendAll(stage, ann, words(5))
  assert.equal(stage.log.length, before + 1)
  assert.deepEqual(new Set(sent.map(({ index }) => index)), new Set([before + 1]))
  const [first] = sent
  assert.deepEqual(
    sent.map(({ messageId }) => messageId),
    words(5).map((part) => `${first!.messageId.slice(0, -1)}${part}`),
  )
  const reader = bob.channel.inbox.read((entry) => entry)
  for (const { messageId, index } of sent) {
    const entry = await next(reader)
    assert.deepEqual([toHex(entry.record.messageId), entry.record.index], [messageId, index])
    assert.equal(entry.redelivered, false)
  }
  // One payload is a message like any other.
  const alone = await sendAll(stage, ann, ['alone'])
  assert.match(alone[0]!.messageId, /0$/)
  assert.deepEqual([stage.log.length, textOf(await next(reader))], [before + 2, 'alone'])
})

test('a pack has at most 16 payloads and 17 cells, and never more cells than its payloads apart', async () => {
  const { stage, ann, bob } = await pair()
  const send = async (...lengths: readonly number[]): Promise<number[]> => {
    const before = stage.log.length
    const texts = lengths.map((length, at) => `${at}`.padEnd(length, '.'))
    await sendAll(stage, ann, texts)
    assert.deepEqual(await bob.take(), texts)
    const cells = sizes(stage, before).map((size) => BUCKETS.find(({ ciphertextBytes }) => ciphertextBytes === size))
    return cells.map((bucket) => bucket?.cells ?? assert.fail())
  }
  assert.deepEqual(await send(...Array.from<number>({ length: 17 }).fill(2)), [2, 2])
  assert.deepEqual(await send(...Array.from<number>({ length: 16 }).fill(1024)), [17])
  // Together 5 cells, apart 4.
  assert.deepEqual(await send(1024, 1024), [2, 2])
  assert.deepEqual(await send(1024, 1024, 1024), [5])
  assert.deepEqual(await send(3000, 3000), [5, 5])
  // To the last byte of 17 cells, and one more.
  assert.deepEqual(await send(1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400, 5745), [17])
  assert.deepEqual(await send(1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400, 5746), [5, 17])
})

test('payloads too large for a pack, and requests, keep their order among payloads', async () => {
  const { stage, ann, bob } = await pair()
  const large = 'x'.repeat(17_000)
  const sending = ['a', 'b', large, 'c', 'd'].map((text) => ann.send(text))
  const ask = ann.channel.asks.ask({ payload: Buffer.from('?'), to: undefined, lifetimeMs: 1000, signal: undefined })
  const after = ['e', 'f'].map((text) => ann.send(text))
  await stage.settle()
  const indexes = (await Promise.all([...sending, ...after])).map(({ index }) => index)
  const [first] = indexes as [number]
  assert.deepEqual(
    indexes,
    [0, 0, 1, 2, 2, 4, 4].map((at) => first + at),
  )
  assert.equal(ann.channel.history.ownIndex(ask.messageId), first + 3)
  assert.deepEqual(await bob.take(), ['a', 'b', large, 'c', 'd', 'e', 'f'])
})

test('payloads that a commit of the same turn overtakes are encrypted once, for the epoch after it', async () => {
  const { stage, ann, bob } = await pair()
  const sending = ['one', 'two'].map((text) => ann.send(text))
  const rekeying = ann.channel.upkeep.rekey()
  const later = ann.send('three')
  await stage.settle()
  await rekeying
  const sent = await Promise.all([...sending, later])
  assert.equal(new Set(sent.map(({ index }) => index)).size, 1)
  assert.deepEqual(await bob.take(), ['one', 'two', 'three'])
  assert.equal(ann.channel.sender.burnt, 0)
})

test('a pack that another commit overtakes is encrypted again as it is', async () => {
  const { stage, ann, bob } = await pair()
  const sending = Promise.all(words(4).map((text) => ann.send(text)))
  ann.journal.flush()
  const rekeying = bob.channel.upkeep.rekey()
  await bob.channel.idle()
  bob.journal.flush()
  // Bob's commit comes first.
  const commit = bob.requests.shift() ?? assert.fail()
  commit.done(stage.handle(bob, commit.body))
  await stage.settle()
  await rekeying
  const sent = await sending
  assert.equal(new Set(sent.map(({ index }) => index)).size, 1)
  assert.deepEqual(await bob.take(), words(4))
  assert.deepEqual([bob.told('fork_detected'), bob.view], [[], ann.view])
})

test('a refused pack rejects all its payloads; one whose caller has left rejects nothing twice', async () => {
  const { stage, ann, bob } = await pair()
  stage.refuse = (_, { case: name }) => (name === 'sendMessage' ? { code: 'quota_exceeded' } : undefined)
  const refused = words(20).map((text) => fate(ann.send(text)))
  await stage.settle()
  assert.deepEqual(new Set(await Promise.all(refused)), new Set(['quota_exceeded']))
  stage.refuse = () => undefined
  const [early, late] = [new AbortController(), new AbortController()]
  const one = fate(ann.send('one', { signal: early.signal }))
  const two = fate(ann.send('two', { signal: late.signal }))
  const three = ann.send('three')
  early.abort()
  ann.journal.flush()
  late.abort()
  await stage.settle()
  assert.deepEqual([await one, await two], ['cancelled', 'send_pending'])
  assert.deepEqual(await bob.take(), ['two', 'three'])
  assert.match((await three).messageId, /1$/)
})

test('a sender that is killed sends a stored pack once, and never one that it has not stored', async () => {
  const { stage, ann, bob } = await pair()
  for (const text of words(3)) void fate(ann.send(text))
  const again = ann.restart()
  await stage.settle()
  assert.deepEqual(await bob.take(), [])
  for (const text of words(3, 3)) void fate(again.send(text))
  again.journal.flush()
  // The relay has it, and its answer is lost.
  const third = again.restart(1)
  await stage.settle()
  assert.deepEqual(await bob.take(), words(3, 3))
  await sendAll(stage, third, words(3, 6))
  assert.deepEqual(await bob.take(), words(3, 6))
  assert.equal(bob.view, third.view)
})

test('a receiver that is killed between two payloads gets the rest again, marked, and no other', async () => {
  const { stage, ann, bob } = await pair()
  const [, second] = await sendAll(stage, ann, words(4))
  const reader = bob.channel.inbox.read((entry) => entry)
  assert.equal(textOf(await next(reader)), '0')
  // Settles the first.
  assert.equal(textOf(await next(reader)), '1')
  bob.journal.flush()
  const again = bob.restart()
  await stage.settle()
  const rest = again.channel.inbox.read((entry) => entry)
  for (const text of ['1', '2', '3']) {
    const entry = await next(rest)
    assert.deepEqual([textOf(entry), entry.redelivered], [text, true])
    if (text === '1') assert.equal(toHex(entry.record.messageId), second!.messageId)
  }
  await rest.return?.()
  assert.deepEqual(await again.take(), ['3'])
  again.journal.flush()
  assert.equal(again.store.load().channels[0]?.inbox.messages, 0)
})

test('an index is settled when all its payloads are, in any order', async () => {
  const { stage, ann, bob } = await pair()
  const sent = await sendAll(stage, ann, words(3))
  const { inbox, history } = bob.channel
  const settled = (): number => inbox.settledUpTo(history.position.index, 0)
  const index = sent[0]!.index
  const reader = inbox.read((entry) => entry, { ahead: true })
  const entries = [await next(reader)]
  // Held by the test, not by the reader.
  entries[0]!.holder = reader
  for (let more = 1; more < 3; more++) {
    const [last] = entries.slice(-1)
    last!.holder = entries
    entries.push(await next(reader))
  }
  for (const at of [2, 0]) {
    inbox.settle(entries[at]!)
    assert.equal(settled(), index - 1)
  }
  inbox.settle(entries[1]!)
  assert.equal(settled(), index)
})

test('reached answers for each payload of a pack, by its own id', async () => {
  const { stage, ann, bob } = await pair()
  const sent = await sendAll(stage, ann, words(3))
  const limits = {}
  const waiting = sent.map((one) =>
    ann.channel.receipts.reached({ sent: one, level: 'settled', by: undefined }, limits),
  )
  assert.deepEqual(await bob.take(), words(3))
  bob.journal.flush()
  await stage.advance(1000, 250)
  for (const one of waiting) assert.deepEqual([...(await one).reached], [bob.agentId])
})

test('one payload of a pack is put aside across a restart; retrying or dropping it by its id leaves the others untouched', async () => {
  const { stage, ann, bob } = await pair()
  const sent = await sendAll(stage, ann, words(4))
  const reader = bob.channel.inbox.read((entry) => entry)
  assert.equal(textOf(await next(reader)), '0')
  const bad = await next(reader)
  // Not on disk by now, and in the other one's place soon.
  assert.equal(bob.channel.poison.put(bad, 'cannot'), true)
  const worse = await next(reader)
  assert.equal(bob.channel.poison.put(worse, 'cannot'), true)
  assert.equal(textOf(await next(reader)), '3')
  await reader.return?.()
  bob.journal.flush()
  const again = bob.restart()
  await stage.settle()
  const { poison } = again.channel
  assert.deepEqual(poison.list().map(textOf), ['1', '2'])
  const [, one, two] = sent.map(({ messageId, index }) => `${messageId}@${index}`)
  await Promise.all([poison.drop(two!), poison.retry(one!)])
  assert.deepEqual(poison.list(), [])
  assert.deepEqual(await again.take(), ['1', '3'])
  again.journal.flush()
  const { inbox, poison: left } = again.store.load().channels[0] ?? assert.fail()
  assert.deepEqual([inbox.messages, left.messages], [0, 0])
  await assert.rejects(poison.retry(one!), { code: 'not_found' })
})

test('an id that several messages have names none of them without its index', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [bob, mal] = [stage.player('bob'), new Apart(stage, 'mal')]
  const messageId = new Uint8Array(16).fill(0x40)
  for (const text of ['first', 'second']) mal.say(mal.frame(text, { messageId }))
  await stage.settle()
  const reader = bob.channel.inbox.read((entry) => entry)
  for (let count = 0; count < 2; count++) bob.channel.poison.put(await next(reader), 'cannot')
  const { poison } = bob.channel
  const { index } = poison.list()[1]!.record
  const id = toHex(messageId)
  await assert.rejects(poison.drop(id), { code: 'invalid_request', message: new RegExp(`${id}@${index}\\.$`) })
  await assert.rejects(poison.drop(`${id}@${index + 1}`), { code: 'not_found' })
  await poison.drop(`${id}@${index}`)
  assert.deepEqual(poison.list().map(textOf), ['first'])
})

test('each payload of a pack counts in the inbox, in memory and after a restart', async () => {
  const { stage, ann, bob } = await pair()
  // Short of a full inbox by 16 payloads of one byte, each with its tag and what every payload counts.
  const kib = 1024
  const fill = { ciphertext: new Uint8Array(64 * kib * kib - 16 * (kib + 17) - kib), messageKey: new Uint8Array(1) }
  const { record } = (await filled(stage, ann, bob)).entry
  bob.channel.inbox.arrive({ record: { ...record, ...fill }, payload: new Uint8Array(), redelivered: false })
  assert.equal(bob.channel.inbox.isFull, false)
  await sendAll(stage, ann, words(10))
  assert.equal(bob.channel.inbox.isFull, false)
  await sendAll(stage, ann, words(6))
  assert.equal(bob.channel.inbox.isFull, true)
})

/** A payload that was read and settled, for its record. */
async function filled(stage: Stage, ann: Player, bob: Player): Promise<{ entry: InboxEntry }> {
  await sendAll(stage, ann, ['template'])
  const reader = bob.channel.inbox.read((entry) => entry)
  const entry = await next(reader)
  bob.channel.inbox.settle(entry)
  await reader.return?.()
  return { entry }
}

test('more payloads than memory keeps, in packs, are read in order, even after a restart', async () => {
  const { stage, ann, bob } = await pair()
  const all = words(700)
  await sendAll(stage, ann, all)
  const reader = bob.channel.inbox.read(textOf)
  const read: string[] = []
  for (let count = 0; count < 300; count++) read.push((await reader.next()).value ?? assert.fail())
  await reader.return?.()
  bob.journal.flush()
  const again = bob.restart()
  await stage.settle()
  assert.deepEqual([...read.slice(0, 299), ...(await again.take())], all)
})

test('all members skip malformed packs alike', async () => {
  const one = encodePack([Buffer.from('one')])
  const bodies: readonly (readonly [name: string, body: Uint8Array])[] = [
    ['none', new Uint8Array()],
    ['one', one],
    ['17', encodePack(Array.from({ length: 17 }, () => new Uint8Array()))],
    ['too many bytes', encodePack([new Uint8Array(16_000), new Uint8Array(974)])],
    ['trailing bytes', Buffer.concat([encodePack([one, one]), Uint8Array.of(0)])],
    ['a length beyond its end', Buffer.concat([encodePack([one, one]), Buffer.from('ffffffff', 'hex')])],
  ]
  for (const [name, payload] of bodies) {
    const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
    const mal = new Apart(stage, 'mal')
    const messageId = new Uint8Array(16).fill(0x70)
    const { position } = stage
    const place = { messageId, counter: mal.counter + 1, previous: mal.previous, seen: position }
    const frame = encodeFrame({ ...place, kind: 'pack', payload })
    mal.put(mal.mls.send(frame), messageId)
    await stage.settle()
    for (const player of stage.players) {
      assert.equal(player.told('decryption_failure').length, 1, `${name}, ${player.name}`)
      assert.deepEqual(await player.take(), [])
    }
    await sendAll(stage, stage.player('ann'), words(2))
    assert.deepEqual(await stage.player('bob').take(), words(2))
  }
})

test('bytes that are not a frame cost their sender only that message, and the channel nothing', async () => {
  for (const missing of [0, 1]) {
    const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
    const [bob, mal] = [stage.player('bob'), new Apart(stage, 'mal')]
    const id = (bits: number): Uint8Array => new Uint8Array(16).fill(0x70).with(15, 0x70 | bits)
    const bodies: readonly (readonly [name: string, make: () => Uint8Array])[] = [
      ['bits in the id', () => mal.frame('lost', { messageId: id(5) })],
      ['version 0', () => Uint8Array.from(mal.frame('lost')).with(0, 0)],
      ['too short', () => mal.frame('lost').slice(0, 97)],
    ]
    mal.say(mal.frame('first'))
    await stage.settle()
    assert.deepEqual(await bob.take(), ['first'])
    for (const [name, make] of bodies) {
      // A message before it never arrives: that is the relay's doing, and found in the next frame.
      if (missing > 0) mal.previous = sha256(mal.frame(`missing ${(mal.counter += missing)}`))
      mal.say(make())
      mal.say(mal.frame(`after ${name}`))
      await stage.settle()
      assert.equal(bob.told('fork_detected').length, missing, name)
      if (missing > 0) break
      assert.deepEqual(await bob.take(), [`after ${name}`])
    }
    if (missing === 0) assert.equal(bob.told('decryption_failure').length, bodies.length)
  }
})

test('a payload or a pack with the id of a payload in another pack is not read', async () => {
  for (const kind of ['payload', 'pack'] as const) {
    const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
    const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'mal')]
    const [, second] = await sendAll(stage, ann, words(2))
    assert.deepEqual(await bob.take(), words(2))
    const messageId = fromHex(second!.messageId)
    const place = { messageId, counter: mal.counter + 1, previous: mal.previous, seen: stage.position }
    mal.put(mal.mls.send(encodeFrame({ ...place, kind, payload: encodePack([messageId, messageId]) })), messageId)
    await stage.settle()
    assert.deepEqual([await bob.take(), bob.told('decryption_failure').length], [[], 1], kind)
  }
})

test('the largest pack of a member is delivered, once', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [bob, mal] = [stage.player('bob'), new Apart(stage, 'mal')]
  const payloads = Array.from({ length: 16 }, (_, n) => Buffer.alloc(n === 0 ? 16_981 - 16 * 4 : 0, 'x'))
  const messageId = new Uint8Array(16).fill(0x70)
  const place = { messageId, counter: mal.counter + 1, previous: mal.previous, seen: stage.position }
  const frame = encodeFrame({ ...place, kind: 'pack', payload: encodePack(payloads) })
  mal.put(mal.mls.send(frame), messageId)
  mal.previous = sha256(frame)
  await stage.settle()
  assert.deepEqual(await bob.take(), payloads.map(String))
  // A gap over a pack loses it as one entry.
  bob.online = false
  await sendAll(stage, stage.player('ann'), words(3))
  const { index, hash, slot } = stage.position
  const position = { index: BigInt(index), hash, slot: BigInt(slot) }
  const gap = { channelId: stage.channelId, firstIndex: BigInt(index), commitLost: false, position }
  bob.channel.intake.deliver({ case: 'gap', value: create(GapNoticeSchema, gap) })
  assert.deepEqual(
    bob.told('gap').map(({ first, last }) => [first, last]),
    [[index, index]],
  )
})

test('every payload is a Uint8Array and no Buffer: alone or in a pack, as it arrives and from the disk', async () => {
  const { stage, ann, bob } = await pair()
  await sendAll(stage, ann, ['alone'])
  await sendAll(stage, ann, words(3))
  const check = async (player: Player): Promise<void> => {
    const reader = player.channel.inbox.read((entry) => entry, { ahead: true })
    for (const text of ['alone', ...words(3)]) {
      const entry = await next(reader)
      assert.equal(textOf(entry), text)
      assert.equal(Object.getPrototypeOf(entry.payload), Uint8Array.prototype, text)
    }
  }
  const again = bob.restart()
  await check(bob)
  await check(again)
})
