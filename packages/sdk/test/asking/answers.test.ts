/** Answers that no one reads, from members that send as many as they can. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { MAX_PAYLOAD_BYTES } from '@static/protocol'
import { encodeAnswer, encodeAnswerEnd, MOST_ASK_BYTES, MOST_OPEN_ASKS } from '../../src/channel/asking/ask-frame.ts'
import type { OpenAsk } from '../../src/channel/asking/open-ask.ts'
import { type Player, Stage } from '../support/stage.ts'

const MINUTE = 60_000

/** Asks everybody as often as an agent may. */
async function asksAll(stage: Stage, player: Player): Promise<OpenAsk[]> {
  const question = { payload: Buffer.from('q'), to: undefined, lifetimeMs: MINUTE, signal: undefined }
  const asks = Array.from({ length: MOST_OPEN_ASKS }, () => player.channel.asks.ask(question))
  await stage.settle()
  return asks
}

/** An answer arrives, in place of a message, which would take long. Returns whether it was taken. */
function answers(
  to: Player,
  ask: OpenAsk,
  sender: string,
  payload: Uint8Array,
  { isLast = false, length = 1 } = {},
): boolean {
  const place = {
    index: to.stage.position.index,
    part: 0,
    messageId: randomBytes(16),
    sender,
    identity: Buffer.from('m'),
  }
  const record = { ...place, epoch: 1, receivedAt: to.now(), ciphertext: new Uint8Array(length), attempts: 0 }
  const before = to.told('answer_ignored').length
  const { asks } = to.channel
  const requestId = ask.messageId
  const body = isLast
    ? encodeAnswerEnd({ requestId, number: 0, content: { payload } })
    : encodeAnswer(requestId, 0, payload)
  asks.arrive(isLast ? 'answer_end' : 'answer', { ...record, messageKey: new Uint8Array(1) }, body)
  return to.told('answer_ignored').length === before
}

test('a member that answers all requests as large as it can leaves room to others', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
  const asks = await asksAll(stage, ann)
  const largest = new Uint8Array(261_000)
  const taken = asks.filter((ask) => answers(ann, ask, mal.agentId, largest)).length
  assert.ok(taken < MOST_OPEN_ASKS, `${taken} were taken`)
  const others = asks.slice(0, 32).filter((ask) => answers(ann, ask, bob.agentId, largest, { isLast: true })).length
  assert.equal(others, 32)
})

test('an answer with more padding than it needs is refused: it would take more room than it counts', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const [padded, largest, smallest] = await asksAll(stage, ann)
  // More than a payload may have, and more than any bucket holds.
  for (const length of [MAX_PAYLOAD_BYTES, 270_000]) {
    assert.equal(answers(ann, padded ?? assert.fail(), bob.agentId, new Uint8Array(length), { length: 278_528 }), false)
  }
  const empty = new Uint8Array()
  assert.equal(answers(ann, padded ?? assert.fail(), bob.agentId, empty, { length: 4977 }), false)
  assert.equal(ann.told('answer_ignored').at(-1)?.reason, 'malformed')
  assert.equal(answers(ann, smallest ?? assert.fail(), bob.agentId, empty, { length: 1914 }), true)
  const most = new Uint8Array(MOST_ASK_BYTES)
  assert.equal(answers(ann, largest ?? assert.fail(), bob.agentId, most, { length: 263_290 }), true)
})

test('requests whose answers no one has read give way when they have timed out', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const [first, ...rest] = await asksAll(stage, ann)
  const asks = [first ?? assert.fail(), ...rest]
  for (const ask of asks) assert.ok(answers(ann, ask, bob.agentId, Buffer.from('a')))
  const question = { payload: Buffer.from('one more'), to: bob.agentId, lifetimeMs: MINUTE, signal: undefined }
  assert.throws(() => ann.channel.asks.ask(question), { code: 'queue_full' })
  await stage.advance(2 * MINUTE, 30_000)
  assert.equal(ann.channel.asks.list().length, MOST_OPEN_ASKS, 'what arrived can still be read')
  assert.ok(await asks[1]?.next())
  ann.channel.asks.ask(question)
  assert.equal(await first?.next(), undefined)
})
