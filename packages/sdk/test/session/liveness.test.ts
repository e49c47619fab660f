/** Signs of life, both ways, and marks that are answered late on purpose. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutEnvelope, makeCell } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { create } from '@bufbuild/protobuf'
import { ServerMessageSchema } from '@static/protocol/relay'
import { Stage } from './stage.ts'

const mark = (number: number): Uint8Array => new Uint8Array(8).fill(number)

test('a ping is answered with its payload', () => {
  const stage = Stage.opened()
  stage.cell(1, 'ping', mark(1))
  stage.cell(1, 'ping', mark(2))
  assert.deepEqual(stage.line(1).pongs, [mark(1), mark(2)])
})

test('a pong comes after everything that preceded its ping', () => {
  const stage = Stage.opened()
  const push = create(ServerMessageSchema, { body: { case: 'keyPackagesLow', value: { held: 1 } } })
  const cells = [
    makeCell('ping', mark(1)),
    cutEnvelope(encodeEnvelope('protobuf', ServerMessageSchema, push)),
    makeCell('ping', mark(2)),
  ]
  const before = stage.line(1).heard.length
  stage.do({ type: 'data', stream: 1, bytes: Buffer.concat(cells) })
  assert.deepEqual(stage.line(1).heard.slice(before), ['pong', 'pong'])
  assert.deepEqual(stage.taken(), ['push keyPackagesLow'])
})

test('after 5 s of silence it pings, after 5 s more the session is lost', () => {
  const stage = Stage.opened()
  stage.request('a')
  stage.advance(4999)
  assert.deepEqual(stage.line(1).pings, [])
  stage.advance(1)
  assert.equal(stage.line(1).pings.length, 1)
  assert.equal(stage.line(1).pings[0]?.length, 8)
  stage.advance(4999)
  assert.deepEqual(stage.taken(), [])
  stage.advance(1)
  assert.deepEqual(stage.taken(), ['end 1', 'a lost', 'lost connection_error'])
  assert.equal(stage.losses[0]?.message, 'The relay stopped answering.')
})

test('any received data is a sign of life', () => {
  const stage = Stage.opened()
  for (let at = 0; at < 20; at++) {
    stage.advance(9999)
    stage.cell(1, at % 2 === 0 ? 'cover' : 'coverAsk')
  }
  assert.deepEqual(stage.taken(), [])
})

test('the relay sets the ping interval, within limits', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.open(1, { pingIntervalMs: 1, pingTimeoutMs: 4_000_000_000 })
  stage.advance(99)
  assert.equal(stage.line(1).pings.length, 0)
  stage.advance(1)
  assert.equal(stage.line(1).pings.length, 1)
  stage.advance(120_000)
  assert.ok(stage.ended.has(1))
})

test('while held, pongs are kept back and life is shown in other ways; releasing sends them in order', () => {
  const stage = Stage.opened()
  stage.do({ type: 'hold' })
  const before = stage.line(1).heard.length
  for (let number = 1; number <= 4; number++) stage.cell(1, 'ping', mark(number))
  assert.deepEqual(stage.line(1).heard.slice(before), Array<string>(4).fill('cover 1'))
  // The relay's pongs may wait behind what it may not send: silence means nothing now.
  stage.advance(25_000)
  assert.deepEqual(stage.taken(), [])
  assert.deepEqual(stage.line(1).pings, [])
  stage.do({ type: 'release' })
  assert.deepEqual(stage.line(1).pongs, [mark(1), mark(2), mark(3), mark(4)])
  stage.cell(1, 'ping', mark(5))
  assert.equal(stage.line(1).pongs.length, 5)
  stage.advance(5000)
  assert.equal(stage.line(1).pings.length, 1, 'and silence counts again')
})

test('pongs that are kept back are bounded: the newest stand for all', () => {
  const stage = Stage.opened()
  stage.do({ type: 'hold' })
  for (let number = 1; number <= 200; number++) stage.cell(1, 'ping', mark(number))
  stage.do({ type: 'release' })
  const { pongs } = stage.line(1)
  assert.equal(pongs.length, 64)
  assert.deepEqual(pongs.at(-1), mark(200))
})

test('a hold outlives the session it began in', () => {
  const stage = Stage.opened()
  stage.do({ type: 'hold' })
  stage.cut(1)
  stage.advance(100)
  stage.open(2)
  stage.cell(2, 'ping', mark(1))
  assert.deepEqual(stage.line(2).pongs, [])
  stage.do({ type: 'release' })
  assert.deepEqual(stage.line(2).pongs, [mark(1)])
})

test('a hold without incoming data does not stop the timeout', () => {
  const stage = Stage.opened()
  stage.do({ type: 'hold' })
  stage.advance(10_000)
  assert.ok(stage.ended.has(1))
})
