/** Frames of requests and answers with any bytes in them, from strangers to the format and from a member that lies. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fromHex, toHex } from '@static/protocol'
import { randomNumbers, SEED } from '@static/testkit/random'
import {
  decodeAnswer,
  decodeCancel,
  decodeMore,
  decodeRequest,
  encodeAnswer,
  encodeAnswerEnd,
  encodeCancel,
  encodeMore,
  encodeRequest,
} from '../../src/channel/asking/ask-frame.ts'
import type { OpenAsk } from '../../src/channel/asking/open-ask.ts'
import { serveRequests } from '../../src/channel/asking/serving.ts'
import type { FrameKind } from '../../src/channel/sending/message-frame.ts'
import { type Player, Stage } from '../support/stage.ts'

const RUNS = 1000
/** Lives of a channel, and what happens in each. More with STATIC_LIVES. */
const LIVES = 2 * Number(process.env['STATIC_LIVES'] ?? 1)
const STEPS = 60

/** Any bytes, also such as begin like an answer or a request. */
const anyBytes = fc.oneof(
  fc.uint8Array({ maxLength: 80 }),
  fc
    .tuple(fc.uint8Array({ minLength: 20, maxLength: 20 }), fc.constantFrom(0, 1, 2, 3), fc.uint8Array())
    .map(([head, status, rest]) => Uint8Array.from([...head, status, ...rest])),
  fc
    .tuple(fc.uint8Array({ minLength: 20, maxLength: 20 }), fc.string({ minLength: 1, maxLength: 64 }), fc.string())
    .map(([head, code, text]) =>
      Buffer.concat([head, Uint8Array.of(2, Buffer.byteLength(code)), Buffer.from(code + text)]),
    ),
  fc
    .tuple(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.bigInt(0n, 700_000_000n), fc.uint8Array())
    .map(([to, lifetime, rest]) => {
      const bytes = Buffer.alloc(40 + rest.length)
      bytes.set(to)
      bytes.writeBigUInt64BE(lifetime, 32)
      bytes.set(rest, 40)
      return bytes
    }),
)

test('any bytes are decoded or not, and a decoded value matches its bytes', (t) => {
  t.diagnostic(`seed ${SEED}`)
  let decoded = 0
  const same = (value: unknown, bytes: Uint8Array, again: () => Uint8Array): void => {
    if (value === undefined) return
    decoded++
    assert.equal(toHex(again()), toHex(bytes))
  }
  fc.assert(
    fc.property(anyBytes, (bytes) => {
      const request = decodeRequest(bytes)
      same(request, bytes, () => encodeRequest(request!))
      const answer = decodeAnswer('answer', bytes)
      same(answer, bytes, () => encodeAnswer(answer!.requestId, answer!.number, bytes.subarray(20)))
      const cancel = decodeCancel(bytes)
      same(cancel, bytes, () => encodeCancel(cancel!))
      const more = decodeMore(bytes)
      same(more, bytes, () => encodeMore(more!.requestId, more!.read))
      const end = decodeAnswer('answer_end', bytes)
      if (!end?.content || !('error' in end.content)) return same(end, bytes, () => encodeAnswerEnd(end!))
      // The text of an error is made fit for people: once.
      decoded++
      assert.match(end.content.error.code, /^[a-z][a-z0-9_]{0,63}$/)
      assert.deepEqual(decodeAnswer('answer_end', encodeAnswerEnd(end))?.content, end.content)
    }),
    { seed: SEED, numRuns: RUNS },
  )
  assert.ok(decoded > RUNS / 2, `only ${decoded} were decoded`)
})

for (let life = 0; life < LIVES; life++) {
  test(`a member lies about requests and answers while both sides are killed and refused, seed ${SEED + life}`, async () => {
    const chaos = await Chaos.start(SEED + life)
    for (let step = 0; step < STEPS; step++) await chaos.step()
    await chaos.end()
  })
}

/** Ann asks Bob, the relay refuses some answers, and Mal, a member with valid keys, says about it what comes to its mind. */
class Chaos {
  readonly #stage: Stage
  readonly #random: () => number
  #ann: Player
  #bob: Player
  readonly #mal: Player
  /** By request: the answers that Ann's program took, each with its message id. */
  readonly #answers = new Map<string, Map<string, string>>()
  readonly #done = new Set<string>()
  /** How often Bob served a request, and whether it was told so each time after the first. */
  readonly #served = new Map<string, boolean[]>()

  private constructor(stage: Stage, seed: number) {
    this.#stage = stage
    this.#random = randomNumbers(seed)
    this.#ann = stage.player('ann')
    this.#bob = stage.player('bob')
    this.#mal = stage.player('mal')
  }

  static async start(seed: number): Promise<Chaos> {
    const stage = await Stage.start(['ann', 'bob', 'mal'], { seed, receipts: 'settled' })
    const chaos = new Chaos(stage, seed)
    stage.refuse = (player, { case: kind }) =>
      player === chaos.#bob && kind === 'sendMessage' && chaos.#random() < 0.2 ? { code: 'queue_full' } : undefined
    return chaos
  }

  async step(): Promise<void> {
    const dice = this.#random()
    if (dice < 0.25) this.#ask()
    else if (dice < 0.85) this.#lie()
    else if (dice < 0.9) this.#restartAnn()
    else if (dice < 0.95) this.#restartBob()
    else await this.#stage.advance(1000)
    if (this.#random() < 0.5) await this.#stage.settle()
  }

  /** In the end everything is answered, by Bob and nobody else, and messages arrive. */
  async end(): Promise<void> {
    this.#stage.refuse = () => undefined
    this.#restartAnn()
    this.#restartBob()
    this.#serve()
    await this.#stage.advance(120_000)
    assert.ok(this.#answers.size > 0)
    for (const [id, answers] of this.#answers) {
      assert.ok(this.#done.has(id), `${id} is not done`)
      assert.deepEqual([...answers.values()], [`one ${id}`, `two ${id}`])
    }
    for (const [, ...again] of this.#served.values()) assert.ok(again.every((redelivered) => redelivered))
    for (const player of [this.#ann, this.#bob, this.#mal]) {
      const sending = player.send(player.name)
      await this.#stage.settle()
      await sending
    }
    assert.deepEqual(await this.#ann.take(), ['bob', 'mal'])
    assert.deepEqual(await this.#bob.take(), ['ann', 'mal'])
  }

  #ask(): void {
    if (this.#ann.channel.asks.list().length > 50) return
    const question = { payload: Buffer.from('?'), to: this.#bob.agentId, lifetimeMs: 3_600_000, signal: undefined }
    this.#follow(this.#ann.channel.asks.ask(question))
  }

  /** Reads the answers. One that the agent gives again after a restart is not taken again. */
  #follow(ask: OpenAsk): void {
    const read = async (): Promise<void> => {
      for (let entry = await ask.next(); entry; entry = await ask.next()) {
        const { content, record } = entry
        const text = 'payload' in content ? Buffer.from(content.payload).toString() : content.error.code
        const answers = this.#answers.get(ask.id) ?? new Map<string, string>()
        this.#answers.set(ask.id, answers.set(`${record.sender} ${toHex(record.messageId)}`, text))
      }
      this.#done.add(ask.id)
    }
    read().catch(() => {})
  }

  #serve(): void {
    const bob = this.#bob
    const served = this.#served
    serveRequests(
      bob,
      bob.channel,
      async function* ({ record, redelivered }) {
        const id = toHex(record.messageId)
        served.set(id, [...(served.get(id) ?? []), redelivered])
        yield `one ${id}`
        yield `two ${id}`
      },
      { perAsker: 4 },
    ).catch(() => {})
  }

  #restartAnn(): void {
    this.#ann = this.#ann.restart(Math.floor(this.#random() * 4))
    for (const ask of this.#ann.channel.asks.list()) this.#follow(ask)
  }

  #restartBob(): void {
    this.#bob = this.#bob.restart(Math.floor(this.#random() * 4))
    if (this.#random() < 0.5) this.#serve()
  }

  /** Says something about a request of Ann, or about none. */
  #lie(): void {
    const ids = [...this.#answers.keys(), ...this.#ann.channel.asks.list().map(({ id }) => id), 'ff'.repeat(16)]
    const requestId = fromHex(ids[Math.floor(this.#random() * ids.length)] ?? '')
    const number = Math.floor(this.#random() * 3)
    const payload = Buffer.from('a lie')
    const content = [undefined, { payload }, { error: { code: 'not_found', message: 'A lie.' } }][number]
    const lies: (readonly [FrameKind, Uint8Array])[] = [
      ['answer', encodeAnswer(requestId, number, payload)],
      ['answer_end', encodeAnswerEnd({ requestId, number, content })],
      ['cancel', encodeCancel(requestId)],
      ['more', encodeMore(requestId, number)],
      ['request', encodeRequest({ to: this.#bob.agentId, lifetimeMs: 1 + number, payload })],
    ]
    const [kind, bytes] = lies[Math.floor(this.#random() * lies.length)] ?? assert.fail()
    // Often damaged.
    const isCut = this.#random() < 0.3
    const damaged = Uint8Array.from(isCut ? bytes.subarray(0, Math.floor(this.#random() * bytes.length)) : bytes)
    if (this.#random() < 0.3) damaged[Math.floor(this.#random() * damaged.length)] = Math.floor(this.#random() * 256)
    this.#mal.channel.sender.send(kind, damaged).catch(() => {})
  }
}
