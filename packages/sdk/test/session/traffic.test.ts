/** What a session does for its traffic profile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BUCKETS } from '../../src/mls/index.ts'
import { makeCell, UNIT_CELLS } from '@static/protocol'
import { Stage } from './stage.ts'

const IDS = { channelId: new Uint8Array(16), sender: new Uint8Array(32), messageId: new Uint8Array(16) }
const DELIVERY = { case: 'deliverMessage', value: { ...IDS, index: 1n } } as const
const POSITION = { channelId: new Uint8Array(16), index: 1n }

test('a unit of cover is as long as the smallest message', () => {
  assert.equal(BUCKETS[0]?.cells, UNIT_CELLS)
})

test('in standard cover is sent at random times and asks for a response; the application does not see it', () => {
  const stage = Stage.opened({ traffic: 'standard' })
  stage.fraction = 0.5
  stage.line(1).heard.length = 0
  // The time between covers is 10 s × ln 2 for this chance.
  stage.live(1, 40_000)
  assert.deepEqual(stage.line(1).heard, Array<string>(5).fill('coverAsk'))
  assert.deepEqual(stage.taken(), [])
})

test('in standard cover that asks is answered with a unit, after the time that acknowledgements take', () => {
  const stage = Stage.opened({ traffic: 'standard' })
  stage.send(1, 0n, DELIVERY)
  stage.now += 40
  stage.do({ type: 'ack', positions: [POSITION] })
  stage.line(1).heard.length = 0
  stage.cell(1, 'coverAsk')
  stage.advance(39)
  assert.deepEqual(stage.line(1).heard, [])
  stage.advance(1)
  assert.deepEqual(stage.line(1).heard, ['cover 2'])
})

test('in standard nothing real waits for cover, and cover is skipped rather than delayed', () => {
  const stage = Stage.opened({ traffic: 'standard' })
  // More than the window: the rest waits for the relay.
  const value = { channelId: new Uint8Array(16), slot: 0n, messageId: new Uint8Array(16), counter: 1n, control: false }
  const body = { case: 'sendMessage', value: { $typeName: 'static.relay.v1.SendMessageRequest', ...value } } as const
  const long = { ...body, value: { ...body.value, ciphertext: new Uint8Array(300_000) } }
  for (const key of ['a', 'b']) stage.request(key, long)
  stage.line(1).heard.length = 0
  stage.live(1, 20_000)
  assert.deepEqual(
    stage.line(1).heard.filter((kind) => kind.startsWith('cover')),
    [],
  )
})

test('without a profile, and on a clock, cover is neither sent nor answered here', () => {
  for (const traffic of ['off', 'private', 'strict'] as const) {
    const stage = Stage.opened({ traffic })
    stage.line(1).heard.length = 0
    stage.cell(1, 'coverAsk')
    stage.live(1, 60_000)
    assert.deepEqual(stage.line(1).heard, [], traffic)
  }
})

test('a profile with a clock starts it when the session is open, before anything else', () => {
  const stage = new Stage({ traffic: 'strict', cellsPerSecond: 9 })
  stage.do({ type: 'start' })
  stage.open(1)
  assert.deepEqual(stage.taken(), ['dial 1 grpc', 'pace 1 steady', 'pin relay.test', 'opened grpc'])
})

test('on a clock pongs, acknowledgements and signs of life may overtake; requests keep their order', () => {
  const stage = Stage.opened({ traffic: 'private' })
  stage.request('a')
  assert.deepEqual(stage.line(1).urgent, [])
  stage.cell(1, 'ping', Uint8Array.of(1))
  stage.do({ type: 'ack', positions: [POSITION] })
  stage.advance(6000)
  assert.deepEqual(stage.line(1).heard.slice(-4), ['resume', 'pong', 'ack', 'ping'])
  assert.deepEqual(stage.line(1).urgent, [1, 1, 1])
})

test('on a clock a stalled connection recovers: pings are answered after the marks before them, and each other', () => {
  const stage = Stage.opened({ traffic: 'strict' })
  const value = { channelId: new Uint8Array(16), slot: 0n, messageId: new Uint8Array(16), counter: 1n, control: false }
  const body = { case: 'sendMessage', value: { $typeName: 'static.relay.v1.SendMessageRequest', ...value } } as const
  stage.request('a', { ...body, value: { ...body.value, ciphertext: new Uint8Array(20_000) } })
  stage.advance(6000)
  stage.cell(1, 'cover')
  stage.advance(6000)
  const { pings } = stage.line(1)
  assert.equal(pings.length, 3)
  for (const payload of pings) stage.cell(1, 'pong', payload)
  assert.deepEqual(stage.losses, [])
})

test('on a clock a sign of life does not acknowledge what is queued behind it', () => {
  const stage = Stage.opened({ traffic: 'private' })
  const value = { channelId: new Uint8Array(16), slot: 0n, messageId: new Uint8Array(16), counter: 1n, control: false }
  const body = { case: 'sendMessage', value: { $typeName: 'static.relay.v1.SendMessageRequest', ...value } } as const
  stage.request('a', { ...body, value: { ...body.value, ciphertext: new Uint8Array(200_000) } })
  const { pings } = stage.line(1)
  const marks = pings.length
  const before = stage.line(1).bytes
  stage.advance(6000)
  const life = pings[marks]
  assert.ok(life)
  stage.cell(1, 'pong', life)
  // The window is as full as before: only the marks in the data tell that it was read.
  assert.equal(stage.line(1).bytes, before + makeCell('ping').length)
  const [mark] = pings
  assert.ok(mark)
  stage.cell(1, 'pong', mark)
  assert.ok(stage.line(1).bytes > before + makeCell('ping').length)
})
