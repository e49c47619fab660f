/** When the first session is given up, and with which words. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AuthError, StaticError } from '@static/protocol'
import { Stage } from './stage.ts'

test('QUIC with fallback: two QUIC dials and one gRPC dial, and both reasons', () => {
  const stage = new Stage({ way: 'quic', fallback: true })
  stage.do({ type: 'start' })
  stage.failDial(1, 'No UDP.')
  stage.advance(100)
  stage.failDial(2, 'No UDP again.')
  stage.advance(200)
  stage.failDial(3, 'No TCP.')
  assert.deepEqual(stage.taken(), ['dial 1 quic', 'dial 2 quic', 'dial 3 grpc', 'failed connection_error'])
  assert.equal(stage.firstError?.message, 'No UDP again. The gRPC fallback also failed: No TCP.')
  stage.advance(3_600_000)
  assert.deepEqual(stage.taken(), [], 'it is over')
})

for (const way of ['quic', 'grpc'] as const) {
  test(`${way} alone: two dials`, () => {
    const stage = new Stage({ way })
    stage.do({ type: 'start' })
    stage.failDial(1)
    stage.redial(2)
    stage.failDial(2, 'Nobody.')
    assert.equal(stage.firstError?.message, 'Nobody.')
  })
}

test('a refusal of the account fails at once', () => {
  const stage = new Stage({ way: 'quic', fallback: true })
  stage.do({ type: 'start' })
  stage.dialled(1)
  stage.challenge(1)
  stage.refuse(1, { code: 'api_key_required', message: 'This relay takes no guests.' })
  assert.deepEqual(stage.taken(), ['dial 1 quic', 'end 1', 'failed api_key_required'])
  assert.ok(stage.firstError instanceof AuthError)
})

test('an untrusted certificate fails at once', () => {
  const stage = new Stage({ way: 'quic', fallback: true })
  stage.do({ type: 'start' })
  stage.failDial(1, 'The certificate is not signed.', 'certificate')
  assert.deepEqual(stage.taken(), ['dial 1 quic', 'failed connection_error'])
})

test('after a relay has no capacity three times in a row, the agent gives up with a message that says so', () => {
  const stage = new Stage({ way: 'quic', fallback: true })
  stage.do({ type: 'start' })
  for (let stream = 1; stream <= 3; stream++) {
    stage.dialled(stream)
    stage.refuse(stream, { code: 'unavailable', message: 'No room.', retryAfterMs: 100 })
    stage.advance(1000)
  }
  assert.equal(stage.firstError?.code, 'unavailable')
})

test('a token source that refuses fails at once', () => {
  const stage = new Stage({ tokens: true })
  stage.do({ type: 'start' })
  stage.do({ type: 'tokenFailed', error: StaticError.of('auth_key_invalid', 'No such key.') })
  assert.deepEqual(stage.taken(), ['ask', 'failed auth_key_invalid'])
})

test('an unreachable token source gets three attempts', () => {
  const stage = new Stage({ tokens: true })
  stage.do({ type: 'start' })
  for (let at = 0; at < 3; at++) {
    assert.equal(stage.firstError, undefined)
    stage.do({ type: 'tokenFailed', error: StaticError.of('connection_error', 'No API.') })
    stage.advance(5000)
  }
  assert.equal(stage.firstError?.message, 'No API.')
})

test('after a first success it retries forever', () => {
  const stage = Stage.opened({ way: 'quic', fallback: true })
  stage.cut(1)
  for (let stream = 2; stream < 200; stream++) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.equal(stage.firstError, undefined)
})

test('requests before the first session are lost at once', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.request('a')
  assert.deepEqual(stage.taken(), ['dial 1 grpc', 'a lost'])
})

test('an agent that waits keeps waiting when the relay cannot be reached, and says so', () => {
  const stage = new Stage({ way: 'grpc', wait: true })
  stage.do({ type: 'start' })
  stage.failDial(1)
  stage.redial(2)
  stage.failDial(2, 'Nobody.')
  assert.equal(stage.firstError, undefined)
  assert.deepEqual(stage.taken().at(-1), 'lost connection_error')
  stage.redial(3)
  // What no time heals is the last word all the same, when it is the first.
  const refused = new Stage({ way: 'grpc', wait: true })
  refused.do({ type: 'start' })
  refused.failDial(1, 'The certificate is not signed.', 'certificate')
  assert.deepEqual(refused.taken(), ['dial 1 grpc', 'failed connection_error'])
})
