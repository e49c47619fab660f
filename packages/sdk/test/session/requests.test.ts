/** Requests and answers, pushes, acknowledgements, and what a relay must not send. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CELL_BYTES, CELL_PAYLOAD_BYTES, cutEnvelope, makeCell } from '@static/protocol'
import type { RequestBody } from '../../src/ports/index.ts'
import { Stage } from './stage.ts'

const DONE = { case: 'resume', value: {} } as const

function message(bytes: number): RequestBody {
  return {
    case: 'sendMessage',
    value: {
      $typeName: 'static.relay.v1.SendMessageRequest',
      channelId: new Uint8Array(16),
      slot: 1n,
      messageId: new Uint8Array(16),
      counter: 1n,
      control: false,
      ciphertext: new Uint8Array(bytes),
    },
  }
}

test('responses are matched to their requests, in whatever order they arrive', () => {
  const stage = Stage.opened()
  for (const key of ['a', 'b', 'c']) stage.request(key)
  const ids = stage.line(1).requests.map(({ requestId }) => requestId)
  assert.deepEqual(ids, [1n, 2n, 3n, 4n, 5n], 'challenge and opening are 1 and 2')
  stage.send(1, 5n, { case: 'resume', value: { more: true } })
  stage.send(1, 3n, { case: 'error', value: { code: 'rate_limited', message: 'Slowly.', retryAfterMs: 70 } })
  stage.send(1, 4n, DONE)
  assert.deepEqual(stage.taken(), ['c answered', 'a refused', 'b answered'])
  const [outcome] = stage.outcomes.get('a') ?? []
  assert.ok(outcome?.type === 'refused')
  assert.equal(outcome.error.retryAfterMs, 70)
})

test('pushes and responses are reported in order of arrival', () => {
  const stage = Stage.opened()
  stage.request('a')
  stage.send(1, 0n, { case: 'keyPackagesLow', value: { held: 2 } })
  stage.answer(1, DONE)
  stage.send(1, 0n, { case: 'gap', value: { channelId: new Uint8Array(16) } })
  assert.deepEqual(stage.taken(), ['push keyPackagesLow', 'a answered', 'push gap'])
})

test('when the stream ends, pending requests are lost in order, and later ones at once', () => {
  const stage = Stage.opened()
  for (const key of ['a', 'b', 'c']) stage.request(key)
  stage.send(1, 4n, DONE)
  stage.cut(1)
  stage.request('d')
  assert.deepEqual(stage.taken(), ['b answered', 'end 1', 'a lost', 'c lost', 'lost connection_error', 'd lost'])
  const [outcome] = stage.outcomes.get('d') ?? []
  assert.ok(outcome?.type === 'lost')
  assert.equal(outcome.error.code, 'transport_error')
})

test('a response may take any time while the relay is alive', () => {
  const stage = Stage.opened()
  stage.request('poll')
  stage.live(1, 120_000)
  assert.deepEqual(stage.taken(), [])
  stage.answer(1, DONE)
  assert.deepEqual(stage.taken(), ['poll answered'])
})

test('a relay that violates the protocol is dropped, with a clear message, and redialled', () => {
  const breaks: Record<string, (stage: Stage) => void> = {
    'an answer that was not asked': (stage) => stage.send(1, 99n, DONE),
    'an answer that came before': (stage) => stage.send(1, 1n, { case: 'getChallenge', value: {} }),
    'an answer of another kind': (stage) => stage.answer(1, { case: 'sendMessage', value: { index: 1n } }),
    'an answer as a push': (stage) => stage.send(1, 0n, DONE),
    'an error as a push': (stage) => stage.send(1, 0n, { case: 'error', value: { code: 'unavailable' } }),
    'bytes that are no message': (stage) =>
      stage.do({ type: 'data', stream: 1, bytes: cutEnvelope(new Uint8Array(9).fill(255)) }),
    'bytes that are no cells': (stage) =>
      stage.do({ type: 'data', stream: 1, bytes: new Uint8Array(CELL_BYTES).fill(200) }),
    'a pong without a ping': (stage) => stage.cell(1, 'pong', new Uint8Array(8)),
    'an acknowledgement': (stage) => stage.cell(1, 'ack', new Uint8Array(8)),
  }
  for (const [name, broken] of Object.entries(breaks)) {
    const stage = Stage.opened()
    stage.request('a')
    broken(stage)
    assert.deepEqual(stage.taken(), ['end 1', 'a lost', 'lost connection_error'], name)
    assert.match(stage.losses[0]?.message ?? '', /^The relay violated the protocol: .+\.$/, name)
    stage.advance(100)
    assert.deepEqual(stage.taken(), ['dial 2 grpc'], name)
  }
})

test('nothing from a stream is reported after its end', () => {
  const stage = Stage.opened()
  stage.request('a')
  const last = stage.asked(1).requestId
  stage.send(1, 99n, DONE)
  stage.taken()
  stage.send(1, last, DONE)
  stage.cut(1)
  assert.deepEqual(stage.taken(), [])
})

test('a push before the session is open is ignored', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.dialled(1)
  stage.send(1, 0n, { case: 'keyPackagesLow', value: {} })
  assert.ok(stage.ended.has(1))
  assert.deepEqual(stage.pushes, [])
})

for (const way of ['quic', 'grpc'] as const) {
  test(`acknowledgements over ${way} go in their own cells, as few as possible`, () => {
    const stage = Stage.opened({ way })
    const positions = Array.from({ length: 100 }, (_, at) => ({
      channelId: new Uint8Array(16).fill(at),
      index: 2n ** 64n - 1n - BigInt(at),
    }))
    stage.do({ type: 'ack', positions })
    const { acks, heard } = stage.line(1)
    assert.deepEqual(heard.slice(2), ['ack', 'ack', 'ack', 'ack'])
    const read = acks.flatMap((ack) => ack.positions.map(({ index }) => index))
    assert.deepEqual(
      read,
      positions.map(({ index }) => index),
    )
  })
}

test('acknowledgements without a session are dropped', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.do({ type: 'ack', positions: [{ channelId: new Uint8Array(16), index: 1n }] })
  assert.deepEqual(stage.taken(), ['dial 1 grpc'])
})

test('at most one window is in flight; pongs release the rest, even within a long request', () => {
  const stage = Stage.opened()
  const line = stage.line(1)
  stage.request('long', message(1024 * 1024))
  assert.ok(line.bytes < (256 + 64 + 8) * 1024, `${line.bytes} bytes without a pong`)
  // What stands for itself does not wait.
  stage.do({ type: 'ack', positions: [{ channelId: new Uint8Array(16), index: 1n }] })
  assert.equal(line.heard.at(-1), 'ack')
  for (let marks = 0; line.requests.length < 3; marks++) {
    assert.ok(marks < 100, 'the request never ends')
    const ping = line.pings.shift()
    assert.ok(ping, 'there is a mark to answer')
    stage.cell(1, 'pong', ping)
  }
  stage.answer(1, { case: 'sendMessage', value: { index: 1n } })
  assert.deepEqual(stage.taken(), ['long answered'])
})

test('acknowledgements alone also set marks, so that they do not fill the window for good', () => {
  const stage = Stage.opened()
  const line = stage.line(1)
  for (let at = 0; at < 1000; at++) {
    stage.do({ type: 'ack', positions: [{ channelId: new Uint8Array(16), index: 1n }] })
    for (const ping of line.pings.splice(0)) stage.cell(1, 'pong', ping)
  }
  stage.request('a')
  assert.equal(line.heard.at(-1), 'resume')
})

test("requests beyond the relay's limit wait for responses", () => {
  const stage = Stage.opened()
  const line = stage.line(1)
  const pong = (): void => {
    for (const ping of line.pings.splice(0)) stage.cell(1, 'pong', ping)
  }
  for (let at = 0; at < 1100; at++) {
    stage.request(String(at))
    pong()
  }
  assert.equal(line.requests.length, 2 + 1000)
  stage.send(1, 3n, DONE)
  assert.equal(line.requests.length, 2 + 1001)
  stage.cut(1)
  assert.equal(stage.taken().filter((line) => line.endsWith(' lost')).length, 1099, 'those that waited, too')
})

test('a response to a request that was not sent yet violates the protocol', () => {
  const stage = Stage.opened()
  stage.request('long', message(300 * 1024))
  stage.request('next')
  stage.send(1, 4n, DONE)
  assert.deepEqual(stage.taken(), ['end 1', 'long lost', 'next lost', 'lost connection_error'])
})

test('beyond 16 MiB nothing more is queued, and beyond 4 MiB nothing is sent', () => {
  const stage = Stage.opened()
  stage.request('huge', message(5 * 1024 * 1024))
  for (let at = 0; at < 8; at++) stage.request(String(at), message(3 * 1024 * 1024))
  assert.deepEqual(stage.taken(), ['huge refused', '6 refused', '7 refused'])
  const codes = ['huge', '7'].map((key) => {
    const [outcome] = stage.outcomes.get(key) ?? []
    return outcome?.type === 'refused' ? outcome.error.code : undefined
  })
  assert.deepEqual(codes, ['too_large', 'unavailable'])
})

test('cells may arrive in any pieces', () => {
  const stage = Stage.opened()
  const cell = makeCell('ping', new Uint8Array(CELL_PAYLOAD_BYTES).fill(3))
  for (let at = 0; at < cell.length; at += 100) {
    stage.do({ type: 'data', stream: 1, bytes: cell.slice(at, at + 100) })
  }
  assert.deepEqual(stage.line(1).pongs, [new Uint8Array(CELL_PAYLOAD_BYTES).fill(3)])
})

test('closing ends the stream and loses pending requests; nothing is dialled afterwards', () => {
  const stage = Stage.opened()
  stage.request('a')
  stage.do({ type: 'close' })
  stage.request('b')
  assert.deepEqual(stage.taken(), ['end 1', 'a lost', 'b lost'])
  const codes = ['a', 'b'].map((key) => stage.outcomes.get(key)?.map((o) => (o.type === 'lost' ? o.error.code : '')))
  assert.deepEqual(codes, [['closed'], ['closed']])
  stage.advance(3_600_000)
  assert.deepEqual(stage.taken(), [])
})
