/** When the next stream is dialled after one was lost. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CloseReason } from '@static/protocol/relay'
import { Stage } from './stage.ts'

test('the first dial after a healthy session comes within 100 ms, whatever the random numbers', () => {
  for (const fraction of [0, 0.3, 0.999]) {
    const stage = Stage.opened()
    stage.fraction = fraction
    stage.live(1, 10_000)
    stage.cut(1)
    const wait = stage.redial(2)
    assert.ok(Math.abs(wait - fraction * 100) < 1, `${wait} ms`)
  }
})

test('the delays grow to 9 s, spread over their whole length, and at the end over a third of it', () => {
  const stage = Stage.opened()
  stage.fraction = 0.5
  const waits: number[] = []
  stage.cut(1)
  for (let stream = 2; stream < 16; stream++) {
    waits.push(Math.round(stage.redial(stream)))
    stage.failDial(stream)
  }
  assert.deepEqual(waits, [50, 150, 450, 1350, 4050, ...Array.from({ length: 9 }, () => 7500)])
})

test('a session that lasts 10 s resets the delay, a shorter one does not', () => {
  const stage = Stage.opened()
  stage.cut(1)
  for (let stream = 2; stream < 5; stream++) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.equal(stage.redial(5), 1350)
  stage.open(5)
  stage.live(5, 9000)
  stage.cut(5)
  assert.equal(stage.redial(6), 4050)
  stage.open(6)
  stage.live(6, 10_000)
  stage.cut(6)
  assert.equal(stage.redial(7), 50)
})

test("REPLACED: another process uses the agent's key, and gets 30 s", () => {
  const stage = Stage.opened()
  stage.request('a')
  stage.close(1, CloseReason.REPLACED, { code: 'closed', message: 'Newer.' })
  assert.deepEqual(stage.taken(), ['end 1', 'a lost', 'lost transport_error'])
  assert.match(stage.losses[0]?.message ?? '', /Two programs seem to use the same agent/)
  assert.ok(stage.redial(2) >= 30_000)
})

test('SHUTDOWN: redialled within a second, spread, after the delay the relay asks for', () => {
  for (const [fraction, retryAfterMs, expected] of [
    [0.25, undefined, 250],
    [0.75, undefined, 750],
    [0.5, 1000, 1500],
  ] as const) {
    const stage = Stage.opened()
    stage.fraction = fraction
    stage.close(1, CloseReason.SHUTDOWN, { code: 'unavailable', message: 'Stopping.', retryAfterMs })
    assert.equal(stage.losses[0]?.code, 'unavailable')
    assert.equal(stage.redial(2), expected)
  }
})

for (const way of ['quic', 'grpc'] as const) {
  test(`${way}: an agent is back within 15 s after an expired certificate was replaced, and dials no more than that`, () => {
    for (const fraction of [0, 0.5, 0.999]) {
      const stage = Stage.opened({ way })
      stage.fraction = fraction
      stage.cut(1)
      stage.redial(2)
      for (let stream = 2; stream < 20; stream++) {
        stage.failDial(stream, 'The certificate has expired.', 'certificate')
        const wait = stage.redial(stream + 1)
        assert.ok(wait >= 9000 && wait <= 15_000, `${wait} ms (random: ${fraction})`)
      }
    }
  })
}

test('NOT_ALLOWED: an account error, retried once a minute', () => {
  const stage = Stage.opened()
  stage.close(1, CloseReason.NOT_ALLOWED, { code: 'account_suspended', message: 'Suspended.' })
  assert.deepEqual(stage.taken(), ['end 1', 'lost account_suspended'])
  const wait = stage.redial(2)
  assert.ok(wait >= 60_000 && wait <= 61_000)
  stage.dialled(2)
  stage.challenge(2)
  stage.refuse(2, { code: 'account_suspended', message: 'Still suspended.' })
  assert.deepEqual(stage.taken(), ['end 2', 'lost account_suspended'])
  assert.ok(stage.redial(3) >= 60_000)
})

test('SLOW, MALFORMED and reasons of a newer relay: redialled as after any loss', () => {
  for (const reason of [CloseReason.SLOW, CloseReason.MALFORMED, 77 as CloseReason]) {
    const stage = Stage.opened()
    stage.close(1, reason, { code: 'unavailable', message: 'Too slow.' })
    assert.deepEqual(stage.taken(), ['end 1', 'lost unavailable'])
    assert.equal(stage.redial(2), 50)
  }
})

test('the relay sets the retry time, up to 10 minutes; retries are spread', () => {
  for (const [told, expected] of [
    [7000, 7150],
    [4_000_000_000, 600_150],
  ] as const) {
    const stage = Stage.opened()
    stage.cut(1)
    stage.redial(2)
    stage.dialled(2)
    stage.refuse(2, { code: 'rate_limited', message: 'Too many.', retryAfterMs: told })
    assert.equal(stage.redial(3), expected)
  }
})

test('failed dials are not reported one by one', () => {
  const stage = Stage.opened()
  stage.cut(1)
  assert.deepEqual(stage.taken(), ['end 1', 'lost connection_error'])
  for (let stream = 2; stream < 6; stream++) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.equal(stage.losses.length, 1)
})

test('a stream that ends before it is open is a failed dial', () => {
  const stage = Stage.opened()
  stage.cut(1)
  stage.advance(100)
  stage.dialled(2)
  stage.do({ type: 'streamClosed', stream: 2, reason: undefined })
  assert.equal(stage.losses.length, 1)
  assert.equal(stage.redial(3), 150)
})
