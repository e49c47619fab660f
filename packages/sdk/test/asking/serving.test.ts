/** Askers that take more than their share of a server, or that are gone when it comes to them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import {
  decodeRefused,
  decodeRequest,
  encodeAnswer,
  encodeRefused,
  encodeRequest,
  MOST_ASK_BYTES,
  MOST_REFUSED,
} from '../../src/channel/asking/ask-frame.ts'
import type { OpenAsk } from '../../src/channel/asking/open-ask.ts'
import { type RequestHandler, type ServeOptions, serveRequests } from '../../src/channel/asking/serving.ts'
import { type Player, Stage } from '../support/stage.ts'

const DAY = 24 * 3600 * 1000

const QUESTION = { payload: Buffer.from('q'), lifetimeMs: 7 * DAY, signal: undefined }

function asks(player: Player, to: Player, words = 'q'): OpenAsk {
  return player.channel.asks.ask({ ...QUESTION, payload: Buffer.from(words), to: to.agentId })
}

function textOf({ payload }: { readonly payload: Uint8Array }): string {
  return Buffer.from(decodeRequest(payload)?.payload ?? []).toString()
}

/** What serving needs of a channel. */
function parts({ channel }: Player): Parameters<typeof serveRequests>[1] {
  const { name, requests, sender, committer, intake } = channel
  return { name, requests, sender, committer, intake }
}

/** Serves until the returned function is called. */
function serves(player: Player, handler: RequestHandler, options: ServeOptions = {}): () => Promise<void> {
  const stop = new AbortController()
  const serving = serveRequests(player, player.channel, handler, { ...options, signal: stop.signal })
  return async () => {
    stop.abort()
    await serving
  }
}

for (const kind of ['promise', 'generator'] as const) {
  test(`an asker that cancels does not get around the limit with a ${kind} that goes on`, async () => {
    const stage = await Stage.start(['ann', 'bob', 'cy'])
    const [ann, bob, cy] = [stage.player('ann'), stage.player('bob'), stage.player('cy')]
    const gate = Promise.withResolvers<void>()
    const started: string[] = []
    const work = async (name: string): Promise<string> => {
      started.push(name)
      await gate.promise
      return 'done'
    }
    const nameOf = (agent: string): string => (agent === ann.agentId ? 'ann' : 'cy')
    const stop = serves(bob, (entry) => {
      const name = nameOf(entry.record.sender)
      if (kind === 'promise') return work(name)
      return (async function* () {
        yield await work(name)
      })()
    })
    for (let round = 0; round < 5; round++) {
      const ask = asks(ann, bob)
      await stage.settleWithPrograms()
      ask.cancel()
      await stage.settleWithPrograms()
    }
    asks(cy, bob)
    await stage.settleWithPrograms()
    assert.deepEqual(started, ['ann', 'cy'])
    const last = asks(ann, bob)
    gate.resolve()
    await stage.settleWithPrograms()
    assert.deepEqual(started, ['ann', 'cy', 'ann'], 'its place is free once the handler has ended')
    const answer = last.next()
    await stage.settleWithPrograms()
    assert.ok(await answer)
    await stop()
  })
}

/** The owner removes a member. */
async function removes(stage: Stage, owner: Player, member: Player): Promise<void> {
  const removing = owner.channel.committer.commit(() => ({ removes: [Buffer.from(member.agentId, 'hex')] }))
  await stage.settleWithPrograms()
  await removing
}

test('requests that a member made before it was removed are not carried out afterwards', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, mal] = [stage.player('ann'), stage.player('mal')]
  asks(mal, stage.player('bob'), 'delete all')
  await stage.settleWithPrograms()
  // From now on the request is only on its disk.
  const bob = stage.player('bob').restart()
  await stage.settleWithPrograms()
  await removes(stage, ann, mal)
  const kept = asks(ann, bob, 'are you there?')
  const served: string[] = []
  const stop = serves(bob, async (entry) => {
    served.push(entry.record.sender === mal.agentId ? 'mal' : 'ann')
    return 'done'
  })
  const answer = kept.next()
  await stage.settleWithPrograms()
  assert.ok(await answer)
  assert.deepEqual(served, ['ann'])
  assert.equal(bob.channel.requests.inbox.isEmpty, true)
  await stop()
})

test('nor if it was added again meanwhile, and without a server its requests go with it', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, mal] = [stage.player('ann'), stage.player('mal')]
  asks(mal, stage.player('bob'))
  await stage.settleWithPrograms()
  const bob = stage.player('bob').restart()
  await stage.settleWithPrograms()
  const { index } = bob.channel.history.position
  // As if a commit had removed and added it.
  bob.channel.receipts.change({ by: mal.agentId, added: [mal.agentId], removed: [mal.agentId], left: 0, vouched: [] })
  assert.equal(bob.channel.receipts.memberSince(mal.agentId), index)
  let served = 0
  const stop = serves(bob, async () => `served ${++served}`)
  await stage.settleWithPrograms()
  await stop()
  assert.equal(served, 0)

  asks(mal, bob)
  await stage.settleWithPrograms()
  assert.equal(bob.channel.requests.inbox.isEmpty, false)
  const again = bob.restart()
  await stage.settleWithPrograms()
  await removes(stage, ann, mal)
  await stage.advance(120_000)
  assert.equal(again.channel.requests.inbox.isEmpty, true)
})

/** Requests arrive, in place of messages, which would take long. Returns how many were taken. */
function flood(stage: Stage, to: Player, sender: string, count: number, length = 10): number {
  const bytes = encodeRequest({ to: to.agentId, lifetimeMs: 7 * DAY, payload: new Uint8Array() })
  const before = to.told('request_ignored').length
  for (let index = stage.position.index + 1; index <= stage.position.index + count; index++) {
    const record = { index, part: 0, messageId: randomBytes(16), sender, identity: Buffer.from('m'), epoch: 1 }
    const rest = { receivedAt: stage.now, messageKey: new Uint8Array(1), attempts: 0 }
    to.channel.requests.arrive({ ...record, ...rest, ciphertext: Buffer.alloc(length) }, bytes)
  }
  return count - (to.told('request_ignored').length - before)
}

/** The messages of a player so far, and whether each is free. */
const sentBy = (stage: Stage, { agentId }: Player): boolean[] =>
  stage.log.flatMap((entry) => (entry.kind === 'message' && entry.sender === agentId ? [entry.request.control] : []))

test('a member that serves nothing sends nothing for requests beyond the room', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { receipts: 'settled' })
  const [bob, mal] = [stage.player('bob'), stage.player('mal')]
  assert.equal(flood(stage, bob, mal.agentId, 600), 256)
  await stage.advance(300_000)
  assert.deepEqual(sentBy(stage, bob), [])
})

test('a server refuses many requests with one free message a minute, in which each asker has a share', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { receipts: 'settled' })
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
  const { promise: never } = Promise.withResolvers<void>()
  void serves(bob, () => never)
  flood(stage, bob, mal.agentId, 600)
  flood(stage, bob, ann.agentId, 256)
  const asked = Array.from({ length: 2 }, () => asks(ann, bob).next())
  await stage.settle()
  assert.deepEqual(sentBy(stage, bob), [])
  await stage.advance(2000)
  assert.deepEqual(sentBy(stage, bob), [true])
  assert.deepEqual(ann.channel.asks.list(), [])
  for (const answer of asked) await assert.rejects(answer, { code: 'queue_full' })
  flood(stage, bob, mal.agentId, 600)
  await stage.advance(50_000)
  assert.equal(sentBy(stage, bob).length, 1)
  await stage.advance(600_000)
  assert.deepEqual(sentBy(stage, bob), [true, true])
})

test('only the member that was asked can refuse a request, and only before it has answered', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
  const [one, all] = [asks(ann, bob), ann.channel.asks.ask({ ...QUESTION, to: undefined })]
  await stage.settle()
  const refused = encodeRefused([one.messageId, all.messageId, randomBytes(16)])
  void mal.channel.sender.send('refused', refused)
  void bob.channel.sender.send('answer', encodeAnswer(one.messageId, 0, Buffer.from('a')))
  await stage.settle()
  void bob.channel.sender.send('refused', refused)
  await stage.settle()
  assert.deepEqual(ann.channel.asks.list(), [one, all])
  for (const ids of [[], Array.from({ length: MOST_REFUSED + 1 }, () => randomBytes(16))])
    assert.equal(decodeRefused(encodeRefused(ids)), undefined)
  assert.equal(decodeRefused(new Uint8Array(17)), undefined)
})

/** A handler that gives `count` answers of the largest size for `stream`, and a short one for anything else. */
function streams(count: number, at: { running: number; most: number } = { running: 0, most: 0 }): RequestHandler {
  return (entry) =>
    (async function* () {
      if (textOf(entry) !== 'stream') return 'done'
      for (let n = 0; n < count; n++) {
        at.most = Math.max(at.most, ++at.running)
        await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
        at.running--
        yield new Uint8Array(MOST_ASK_BYTES)
      }
      return undefined
    })()
}

test("a request with unread answers does not hold up the asker's next ones", async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const at = { running: 0, most: 0 }
  const stop = serves(bob, streams(4, at))
  const open = [asks(ann, bob, 'stream'), asks(ann, bob, 'stream')]
  await stage.settleWithPrograms()
  const short = asks(ann, bob, 'short')
  await stage.settleWithPrograms()
  assert.equal(short.isEmpty, false)
  // When both are read at the same time, their handlers go on one at a time.
  const reading = open.map(async (ask) => {
    let count = 0
    while (await ask.next()) count++
    return count
  })
  for (let round = 0; round < 20; round++) await stage.settleWithPrograms()
  assert.deepEqual(await Promise.all(reading), [4, 4])
  assert.equal(at.most, 1)
  await stop()
})

test('an asker that reads nothing has a limited number of handlers, and others are served', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
  let started = 0
  const handler = streams(4)
  // Answers go nowhere: to send them would take long.
  const channel = { ...parts(bob), sender: { send: async () => ({}) as never } }
  const stop = new AbortController()
  const count: RequestHandler = (entry, served) => {
    started++
    return handler(entry, served)
  }
  const serving = serveRequests(bob, channel, count, { concurrency: 8, signal: stop.signal })
  for (let n = 0; n < 40; n++) asks(mal, bob, 'stream')
  for (let round = 0; round < 10; round++) await stage.settleWithPrograms()
  assert.equal(started, 7, 'six that wait to be read, and one in the place of the asker')
  asks(ann, bob, 'short')
  await stage.settleWithPrograms()
  assert.equal(started, 8)
  stop.abort()
  await serving
})

test('askers that fill the room for requests leave some of it to any other', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const bob = stage.player('bob')
  const bytes = encodeRequest({ to: undefined, lifetimeMs: 7 * DAY, payload: new Uint8Array() })
  let index = stage.position.index
  // In place of messages, which would take long.
  const arrive = (sender: string, length: number): boolean => {
    const place = {
      index: ++index,
      part: 0,
      messageId: randomBytes(16),
      sender,
      identity: Buffer.from(sender),
      epoch: 1,
    }
    const record = { ...place, receivedAt: stage.now, messageKey: new Uint8Array(1), attempts: 0 }
    const before = bob.told('request_ignored').length
    bob.channel.requests.arrive({ ...record, ciphertext: Buffer.alloc(length) }, bytes)
    return bob.told('request_ignored').length === before
  }
  const [four, twenty] = [4, 20].map((count) => Array.from({ length: count }, (_, n) => `${n}`.padStart(64, 'a')))
  while (four?.map((asker) => arrive(asker, 260_000)).includes(true));
  for (let count = 0; count < 6; count++) assert.equal(arrive('b'.repeat(64), 260_000), true, 'large ones')
  while (twenty?.map((asker) => arrive(asker, 10)).includes(true));
  for (let count = 0; count < 32; count++) assert.equal(arrive('c'.repeat(64), 10), true, 'small ones')
})

test('an asker that cancels requests it never made is remembered only for its own', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, mal] = [stage.player('ann'), stage.player('mal')]
  const ask = asks(ann, stage.player('bob'))
  await stage.settleWithPrograms()
  const bob = stage.player('bob').restart()
  await stage.settleWithPrograms()
  // In place of messages, which would take long.
  const { requests } = bob.channel
  for (let n = 0; n < 5000; n++) requests.heed('cancel', mal.agentId, Buffer.alloc(16, `${n}`))
  ask.cancel()
  await stage.settleWithPrograms()
  let served = 0
  const stop = serves(bob, async () => `served ${++served}`)
  await stage.settleWithPrograms()
  await stop()
  assert.equal(served, 0)
})

test('askers that take all places leave some to any other', async () => {
  const stage = await Stage.start(['ann', 'bob', 'm1', 'm2'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const started: string[] = []
  // As subscriptions do that wait for something that never happens.
  const handler: RequestHandler = async ({ record }, served) => {
    started.push(record.sender)
    await new Promise((resolve) => served.signal.addEventListener('abort', resolve))
  }
  const stop = serves(bob, handler, { concurrency: 16, perAsker: 16 })
  const open = Array.from({ length: 16 }, () => ['m1', 'm2'].map((name) => asks(stage.player(name), bob))).flat()
  await stage.settleWithPrograms()
  open.push(asks(ann, bob))
  await stage.settleWithPrograms()
  assert.equal(started.at(-1), ann.agentId, `${started.length} were started`)
  for (const ask of open) ask.cancel()
  await stage.settleWithPrograms()
  await stop()
})
