/** Answers as large and as many as a handler likes: all of them reach an asker that reads them, and so does their end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { randomNumbers } from '@static/testkit/random'
import { Answerer } from '../../src/channel/asking/answerer.ts'
import { sizeOfAnswer } from '../../src/channel/asking/answer-window.ts'
import { Answering } from '../../src/channel/asking/answering.ts'
import { decodeAnswer, encodeAnswer, encodeAnswerEnd, MOST_ASK_BYTES } from '../../src/channel/asking/ask-frame.ts'
import type { OpenAsk } from '../../src/channel/asking/open-ask.ts'
import { type RequestHandler, serveRequests } from '../../src/channel/asking/serving.ts'
import { type Player, Stage } from '../support/stage.ts'

const HOUR = 3600 * 1000
const SEED = 20_261_117

/** Handlers go on: what they yield next is not yielded at once. */
const soon = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

function asks(player: Player, to: Player): OpenAsk {
  return player.channel.asks.ask({ payload: Buffer.from('q'), to: to.agentId, lifetimeMs: HOUR, signal: undefined })
}

/** Serves until the returned function is called. */
function serves(player: Player, handler: RequestHandler): () => Promise<void> {
  const stop = new AbortController()
  const serving = serveRequests(player, player.channel, handler, { signal: stop.signal })
  return async () => {
    stop.abort()
    await serving
  }
}

/** Reads to the end: sizes and codes, then how it ended. */
async function readAll(stage: Stage, ask: OpenAsk): Promise<(number | string)[]> {
  const found: (number | string)[] = []
  let isOver = false
  const reading = (async () => {
    for (let entry = await ask.next(); entry; entry = await ask.next())
      found.push('payload' in entry.content ? entry.content.payload.length : entry.content.error.code)
    return 'end'
  })()
    .catch((error: unknown) => StaticError.from(error).code)
    .finally(() => (isOver = true))
  for (let round = 0; round < 100 && !isOver; round++) await stage.settleWithPrograms()
  if (!isOver) await stage.advance(2 * HOUR, HOUR / 2)
  return [...found, await reading]
}

/** A handler that gives answers of these sizes, one after the other, and then maybe an error. */
function givesLater(sizes: readonly number[], error?: StaticError): RequestHandler {
  return () =>
    (async function* () {
      for (const size of sizes) {
        yield new Uint8Array(size)
        await soon()
      }
      if (error) throw error
    })()
}

for (const [name, sizes] of [
  ['a line of progress and then a large result', [7, 262_000]],
  ['many lines of progress and then a result of more than half a window', [...Array(100).fill(7), 160_000]],
  ['answers of the largest size', Array(4).fill(MOST_ASK_BYTES)],
] as const) {
  test(`an asker that reads at once gets ${name}`, async () => {
    const stage = await Stage.start(['ann', 'bob'])
    const [ann, bob] = [stage.player('ann'), stage.player('bob')]
    const stop = serves(bob, givesLater(sizes))
    assert.deepEqual(await readAll(stage, asks(ann, bob)), [...sizes, 'end'])
    assert.deepEqual(ann.told('answer_ignored'), [])
    await stop()
  })
}

for (const [name, sizes, error] of [
  ['an answer of the largest size', [MOST_ASK_BYTES], undefined],
  ['a full window', Array(4).fill(63 * 1024), StaticError.of('unavailable', 'The disk is full.')],
] as const) {
  test(`${name} does not keep out the ${error ? 'error' : 'end'} behind it`, async () => {
    const stage = await Stage.start(['ann', 'bob'])
    const [ann, bob] = [stage.player('ann'), stage.player('bob')]
    const stop = serves(bob, givesLater(sizes, error))
    const ask = asks(ann, bob)
    // The asker begins to read when everything has come.
    for (let round = 0; round < 100 && stage.log.length < 2 + sizes.length; round++) await stage.settleWithPrograms()
    assert.equal(bob.channel.requests.inbox.isEmpty, true)
    assert.deepEqual(await readAll(stage, ask), [...sizes, ...(error ? [error.code] : []), 'end'])
    assert.deepEqual(ann.told('answer_ignored'), [])
    await stop()
  })
}

test('an error holds a short text, no matter who wrote it', () => {
  const requestId = new Uint8Array(16)
  const longest = { code: 'unavailable', message: '…'.repeat(100_000) }
  const honest = encodeAnswerEnd({ requestId, number: 0, content: { error: longest } })
  assert.ok(honest.length < 4096, `${honest.length} bytes`)
  assert.ok(decodeAnswer('answer_end', honest))
  assert.equal(decodeAnswer('answer_end', Buffer.concat([honest, Buffer.alloc(4096, 'x')])), undefined)
})

test('an asker that is restarted while it reads gets the rest', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const bob = stage.player('bob')
  const sizes = [60_000, 60_000, 60_000, 100_000, 100_000]
  const stop = serves(bob, givesLater(sizes))
  const ask = asks(stage.player('ann'), bob)
  await stage.settleWithPrograms()
  for (let n = 0; n < 3; n++) await ask.next()
  await stage.settleWithPrograms()
  // It has read two thirds of what came, too little to be confirmed before.
  const ann = stage.player('ann').restart()
  await stage.settleWithPrograms()
  const [again] = ann.channel.asks.list()
  assert.deepEqual(await readAll(stage, again ?? assert.fail()), [...sizes.slice(2), 'end'])
  await stop()
})

for (const [name, first, second] of [
  ['smaller', 120_000, 20_000],
  ['larger', 20_000, 120_000],
] as const) {
  test(`a request that is served again with ${name} answers is answered`, async () => {
    const stage = await Stage.start(['ann', 'bob'])
    const ann = stage.player('ann')
    const gate = Promise.withResolvers<void>()
    void serves(stage.player('bob'), () =>
      (async function* () {
        yield new Uint8Array(first)
        await soon()
        yield new Uint8Array(first)
        await gate.promise
      })(),
    )
    const ask = asks(ann, stage.player('bob'))
    await stage.settleWithPrograms()
    const bob = stage.player('bob').restart()
    const stop = serves(bob, givesLater(Array(6).fill(second)))
    await stage.settleWithPrograms()
    assert.deepEqual(await readAll(stage, ask), [first, first, ...Array(4).fill(second), 'end'])
    assert.deepEqual(new Set(ann.told('answer_ignored').map(({ reason }) => reason)), new Set(['repeated']))
    gate.resolve()
    await stop()
  })
}

/** Bob serves a request of Ann, but never ends his first answers; then he is restarted and gives others. */
async function servedAgain(first: readonly number[], second: RequestHandler): Promise<[Stage, () => Promise<void>]> {
  const stage = await Stage.start(['ann', 'bob'])
  const forever = Promise.withResolvers<void>()
  void serves(stage.player('bob'), () =>
    (async function* () {
      for (const size of first) yield new Uint8Array(size)
      await forever.promise
    })(),
  )
  asks(stage.player('ann'), stage.player('bob'))
  await stage.settleWithPrograms()
  const stop = serves(stage.player('bob').restart(), second)
  await stage.settleWithPrograms()
  return [stage, stop]
}

test('if the asker is restarted as well, it accepts the answers after shorter ones', async () => {
  const go = Promise.withResolvers<void>()
  const [stage, stop] = await servedAgain([200_000], () =>
    (async function* () {
      yield new Uint8Array(10)
      await go.promise
      yield new Uint8Array(200_000)
    })(),
  )
  const ann = stage.player('ann').restart()
  await stage.settleWithPrograms()
  go.resolve()
  await stage.settleWithPrograms()
  const [ask] = ann.channel.asks.list()
  assert.deepEqual(await readAll(stage, ask ?? assert.fail()), [200_000, 200_000, 'end'])
  assert.deepEqual(ann.told('answer_ignored'), [])
  await stop()
})

test('if the asker is restarted as well, it confirms all of the longer answers that it did not keep', async () => {
  const sizes = [60_000, 60_000, 130_000, 100_000]
  const [stage, stop] = await servedAgain([1, 1, 1], givesLater(sizes))
  const ann = stage.player('ann').restart()
  await stage.settleWithPrograms()
  const [ask] = ann.channel.asks.list()
  assert.deepEqual(await readAll(stage, ask ?? assert.fail()), [1, 1, 1, 100_000, 'end'])
  await stop()
})

test('a member that repeats each answer with nothing in it gets little more than its window', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const ask = asks(ann, bob)
  await stage.settleWithPrograms()
  for (let number = 0; number < 12; number++) {
    for (const size of [250_000, 0]) {
      void bob.channel.sender.send('answer', encodeAnswer(ask.messageId, number, new Uint8Array(size)))
      await stage.settle()
    }
  }
  const bytesOf = ({ unsettled }: OpenAsk): number =>
    unsettled.reduce((sum, { record: { ciphertext } }) => sum + ciphertext.length, 0)
  assert.ok(bytesOf(ask) < 2 * 262_144, `${bytesOf(ask)} bytes are held`)
  // What it gave in their place is what there is, also on disk.
  const [again] = ann.restart().channel.asks.list()
  assert.equal(again && bytesOf(again), bytesOf(ask))
  void bob.channel.sender.send(
    'answer_end',
    encodeAnswerEnd({ requestId: ask.messageId, number: 12, content: undefined }),
  )
  await stage.settleWithPrograms()
  assert.deepEqual(await readAll(stage, again ?? assert.fail()), [250_000, ...Array(11).fill(0), 'end'])
})

test('an error that arrives ahead of the answers before it is delivered as well', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const gate = Promise.withResolvers<void>()
  void serves(stage.player('bob'), () =>
    (async function* () {
      yield new Uint8Array(1)
      await soon()
      yield new Uint8Array(2)
      await gate.promise
    })(),
  )
  const ask = asks(stage.player('ann'), stage.player('bob'))
  await stage.settleWithPrograms()
  const bob = stage.player('bob').restart()
  const stop = serves(bob, givesLater([], StaticError.of('unavailable', 'The disk is full.')))
  await stage.settleWithPrograms()
  assert.deepEqual(await readAll(stage, ask), [1, 2, 'unavailable', 'end'])
  gate.resolve()
  await stop()
})

test('a confirmation that cannot be sent is retried one attempt at a time', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  let refused = 0
  let isRefusing = true
  stage.refuse = (player, body) => {
    if (player !== ann || body.case !== 'sendMessage' || stage.log.length < 2 || !isRefusing) return undefined
    refused++
    return { code: 'quota_exceeded' }
  }
  const sizes = [130_000, ...Array(60).fill(1), 260_000]
  const stop = serves(bob, givesLater(sizes))
  const ask = asks(ann, bob)
  for (let n = 0; n < 61; n++) {
    const next = ask.next()
    await stage.settleWithPrograms()
    await next
    await stage.advance(80, 80)
  }
  const before = refused
  await stage.advance(60_000, 80)
  assert.ok(before > 0 && refused - before <= 12, `${before} in the beginning, ${refused - before} in a minute`)
  isRefusing = false
  await stage.advance(5000)
  assert.deepEqual(await readAll(stage, ask), [260_000, 'end'])
  await stop()
})

test(`answers of any size neither wait forever nor are refused (seed ${SEED})`, async () => {
  const random = randomNumbers(SEED)
  const below = (most: number): number => Math.floor(random() * most)
  for (let run = 0; run < 24; run++) {
    const answerer = new Answerer()
    let [sent, read] = [0, 0]
    const arrive = async (_kind: string, { length }: Uint8Array): Promise<never> => {
      const size = sizeOfAnswer(new Uint8Array(length - 20))
      assert.equal(answerer.isFull(size), false, `run ${run}: the asker refuses answer ${sent}`)
      answerer.push(sent++, size)
      return undefined as never
    }
    const answering = new Answering(new Uint8Array(16), { send: arrive }, () => async () => {})
    const reads = (most: number): void => {
      for (let count = 0; count < most && read < sent; count++, read++) {
        answerer.read()
        if (answerer.isDue) answering.more(answerer.confirm())
      }
    }
    for (let number = 0; number < 20; number++) {
      const most = [10, 5000, 140_000, MOST_ASK_BYTES + 1][below(4)] ?? 0
      let isSent = false
      const sending = answering.send(new Uint8Array(below(most))).then(() => (isSent = true))
      await soon()
      reads(below(3))
      await soon()
      // An asker that has read everything holds back nothing.
      if (!isSent) reads(Infinity)
      await soon()
      assert.ok(isSent, `run ${run}: answer ${number} waits for an asker that has read all`)
      await sending
    }
  }
})

test(`the same holds when both ends are restarted and answers differ each time (seed ${SEED})`, async () => {
  for (let run = 0; run < 60; run++) await new Ends(SEED + run, run % 3 > 0).live()
})

/** Both ends of an answer. What one says may reach the other late, or only its next life. */
class Ends {
  readonly #name: string
  readonly #below: (most: number) => number
  readonly #isAskerRestarted: boolean
  #answerer = new Answerer()
  /** The unread answers, as on disk. */
  #unread: { readonly number: number; readonly size: number }[] = []
  #answering = this.#newAnswering()
  readonly #confirmations: number[] = []
  #sending = Promise.resolve()
  #isDone = false
  #failure: unknown

  constructor(seed: number, isAskerRestarted: boolean) {
    const random = randomNumbers(seed)
    this.#name = `seed ${seed}`
    this.#below = (most) => Math.floor(random() * most)
    this.#isAskerRestarted = isAskerRestarted
  }

  async live(): Promise<void> {
    this.#serve()
    for (let step = 0; step < 40; step++) {
      await soon()
      const dice = this.#below(10)
      if (dice < 3) this.#read()
      else if (dice < 4) this.#deliver()
      else if (dice < 6) this.#restartServer()
      else if (dice < 7 && this.#isAskerRestarted) this.#restartAsker()
    }
    for (let round = 0; round < 200 && !this.#isDone; round++) {
      assert.ifError(this.#failure)
      while (this.#unread.length > 0) this.#read()
      while (this.#confirmations.length > 0) this.#deliver()
      await soon()
    }
    assert.ok(this.#isDone, `${this.#name}: an answer waits for an asker that has read all`)
    await this.#sending
  }

  #newAnswering(): Answering {
    const send = async (_kind: string, bytes: Uint8Array): Promise<never> => {
      const { number, content } = decodeAnswer('answer', bytes) ?? assert.fail()
      assert.ok(content && 'payload' in content)
      this.#arrive(number, sizeOfAnswer(content.payload))
      return undefined as never
    }
    return new Answering(new Uint8Array(16), { send }, () => async () => {})
  }

  #arrive(number: number, size: number): void {
    const answerer = this.#answerer
    if (answerer.isReplacing(number, size)) {
      answerer.retract(number)
      this.#unread = this.#unread.filter((unread) => unread.number < number)
    }
    if (number < answerer.answers) answerer.repeat(number, size)
    else {
      assert.equal(number, answerer.answers, this.#name)
      assert.equal(answerer.isFull(size), false, `${this.#name}: the asker refuses answer ${number}`)
      answerer.push(number, size)
      this.#unread.push({ number, size })
    }
    const held = this.#unread.reduce((sum, unread) => sum + unread.size, 0)
    assert.ok(this.#isAskerRestarted || held < 3 * 262_144, `${this.#name}: the asker holds ${held} bytes`)
    this.#confirm()
  }

  #serve(): void {
    const answering = this.#answering
    const brief = this.#below(20)
    const most = [10, 60_000, 140_000, MOST_ASK_BYTES + 1][this.#below(4)] ?? 0
    this.#sending = (async () => {
      for (let number = 0; number < 20; number++) {
        await answering.send(new Uint8Array(this.#below(number < brief ? 10 : most)))
        if (this.#below(3) === 0) await soon()
      }
      this.#isDone = answering === this.#answering
    })().catch((error: unknown) => {
      if (StaticError.from(error).code !== 'closed') this.#failure = error
    })
  }

  #restartServer(): void {
    if (this.#isDone) return
    this.#answering.stop(StaticError.of('closed', 'The server has stopped.'))
    this.#answering = this.#newAnswering()
    this.#serve()
  }

  #restartAsker(): void {
    const { answers, ended } = this.#answerer
    this.#answerer = new Answerer()
    if (answers > 0) this.#answerer.restore(answers, ended)
    for (const { number, size } of this.#unread) this.#answerer.push(number, size)
    this.#confirm()
  }

  #read(): void {
    if (this.#unread.shift() === undefined) return
    this.#answerer.read()
    this.#confirm()
  }

  #confirm(): void {
    if (this.#answerer.isDue) this.#confirmations.push(this.#answerer.confirm())
  }

  #deliver(): void {
    const read = this.#confirmations.shift()
    if (read !== undefined) this.#answering.more(read)
  }
}
