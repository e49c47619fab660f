/** QUIC that does not get through: gRPC instead, and the way back. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CloseReason } from '@static/protocol/relay'
import { RELAY_ID, Stage } from './stage.ts'

const MINUTE_MS = 60_000
const QUIC = { way: 'quic', fallback: true } as const

/** On gRPC, after two failed QUIC dials. */
function onGrpc(): Stage {
  const stage = new Stage(QUIC)
  stage.do({ type: 'start' })
  stage.failDial(1)
  stage.advance(100)
  stage.failDial(2)
  stage.advance(200)
  stage.open(3)
  assert.deepEqual(stage.taken(), ['dial 1 quic', 'dial 2 quic', 'dial 3 grpc', 'pin relay.test', 'opened grpc'])
  return stage
}

/** On gRPC, with a QUIC stream beside it that waits for the answer to its opening. */
function probing(): Stage {
  const stage = onGrpc()
  stage.live(3, MINUTE_MS)
  assert.deepEqual(stage.taken(), ['dial 4 quic'])
  stage.dialled(4)
  stage.challenge(4)
  return stage
}

/** The way of each dial. */
function ways(stage: Stage): string[] {
  return [...stage.lines.values()].map(({ way }) => way)
}

test('two failed QUIC dials in a row lead to gRPC', () => {
  onGrpc()
})

/** Two failed QUIC dials; the way and the port of the third. */
function thirdDial(options: ConstructorParameters<typeof Stage>[0]): string | undefined {
  const stage = new Stage({ ...QUIC, ...options })
  stage.do({ type: 'start' })
  stage.failDial(1)
  stage.advance(100)
  stage.failDial(2)
  stage.advance(200)
  return stage.taken().at(-1)
}

test("the port of gRPC: the application's, else the one that the relay named, else the default", () => {
  const known = { relayId: RELAY_ID, grpcPort: 5443 }
  assert.equal(thirdDial({ known, grpcPort: 5900 }), 'dial 3 grpc:5900')
  assert.equal(thirdDial({ known }), 'dial 3 grpc:5443')
  assert.equal(thirdDial({ known: { ...known, grpcPort: 0 } }), 'dial 3 grpc')
  assert.equal(thirdDial({}), 'dial 3 grpc')
})

test('the relay names its gRPC port: it is stored, and used at once', () => {
  const stage = new Stage(QUIC)
  stage.do({ type: 'start' })
  stage.open(1, { grpcPort: 5443 })
  assert.deepEqual(stage.pins, [{ relayId: RELAY_ID, grpcPort: 5443 }])
  assert.deepEqual(stage.infos[0]?.relay, { relayId: RELAY_ID, grpcPort: 5443 })
  stage.cut(1)
  for (const stream of [2, 3]) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  stage.redial(4)
  assert.deepEqual([stage.line(4).way, stage.line(4).port], ['grpc', 5443])
})

test('an invalid port changes nothing', () => {
  for (const grpcPort of [0, 65_536, 0xffff_ffff]) {
    const known = { relayId: RELAY_ID, grpcPort: 5443 }
    const stage = new Stage({ ...QUIC, known })
    stage.do({ type: 'start' })
    stage.open(1, { grpcPort })
    assert.deepEqual(stage.pins, [])
    assert.deepEqual(stage.infos[0]?.relay, known)
  }
})

test('an endpoint that is gRPC itself says its own port, whatever the relay told', () => {
  const stage = new Stage({ way: 'grpc', known: { relayId: RELAY_ID, grpcPort: 5443 } })
  stage.do({ type: 'start' })
  assert.deepEqual(stage.taken(), ['dial 1 grpc'])
})

test('an opening that takes too long counts as a failed dial', () => {
  const stage = new Stage(QUIC)
  stage.do({ type: 'start' })
  stage.dialled(1)
  stage.advance(10_100)
  stage.dialled(2)
  stage.advance(10_200)
  assert.deepEqual(stage.taken(), ['dial 1 quic', 'end 1', 'dial 2 quic', 'end 2', 'dial 3 grpc'])
})

test('so does an opening that the relay finds too slow', () => {
  const stage = Stage.opened(QUIC)
  stage.cut(1)
  for (const stream of [2, 3]) {
    stage.redial(stream)
    stage.dialled(stream)
    stage.close(stream, CloseReason.EXPIRED, { code: 'auth_failed', message: 'Not opened in time.' })
  }
  stage.redial(4)
  assert.deepEqual(ways(stage), ['quic', 'quic', 'quic', 'grpc'])
})

test('neither a refusal nor the loss of an open session leads to gRPC', () => {
  const stage = Stage.opened(QUIC)
  stage.cut(1)
  for (let stream = 2; stream < 6; stream++) {
    stage.redial(stream)
    stage.dialled(stream)
    stage.challenge(stream)
    stage.refuse(stream, { code: stream % 2 ? 'unavailable' : 'auth_failed', message: 'No.' })
  }
  assert.deepEqual(ways(stage), ['quic', 'quic', 'quic', 'quic', 'quic'])
})

test('an untrusted certificate does not lead to gRPC', () => {
  const stage = Stage.opened(QUIC)
  stage.cut(1)
  for (let stream = 2; stream < 5; stream++) {
    stage.redial(stream)
    stage.failDial(stream, 'The certificate is not signed.', 'certificate')
  }
  assert.deepEqual(ways(stage), ['quic', 'quic', 'quic', 'quic'])
})

test('an agent without QUIC uses gRPC at once, and from then on alone', () => {
  const stage = new Stage(QUIC)
  stage.do({ type: 'start' })
  stage.failDial(1, 'QUIC is not installed.', 'unusable')
  assert.deepEqual(stage.taken(), ['dial 1 quic', 'dial 2 grpc'])
  stage.open(2)
  stage.live(2, 60 * MINUTE_MS)
  stage.cut(2)
  for (let stream = 3; stream < 8; stream++) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.deepEqual(ways(stage), ['quic', 'grpc', 'grpc', 'grpc', 'grpc', 'grpc', 'grpc'])
})

test('an agent without QUIC and without fallback fails with the reason', () => {
  const stage = new Stage({ way: 'quic' })
  stage.do({ type: 'start' })
  stage.failDial(1, 'QUIC is not installed.', 'unusable')
  stage.redial(2)
  stage.failDial(2, 'QUIC is not installed.', 'unusable')
  assert.equal(stage.taken().at(-1), 'failed connection_error')
})

test('without fallback there is no gRPC', () => {
  const stage = Stage.opened({ way: 'quic' })
  stage.cut(1)
  for (let stream = 2; stream < 6; stream++) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.deepEqual(ways(stage), ['quic', 'quic', 'quic', 'quic', 'quic'])
})

test('a lost gRPC session is redialled over gRPC; if that fails, QUIC gets two attempts again', () => {
  const stage = onGrpc()
  stage.cut(3)
  for (let stream = 4; stream < 10; stream++) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.deepEqual(ways(stage).slice(3), ['grpc', 'quic', 'quic', 'grpc', 'quic', 'quic'])
})

test('QUIC is retried after 60 s, then after twice as long, up to 10 minutes; nothing else changes', () => {
  const stage = onGrpc()
  let stream = 4
  for (const minutes of [1, 2, 4, 8, 10, 10]) {
    stage.live(3, minutes * MINUTE_MS - 1)
    assert.deepEqual(stage.taken(), [])
    stage.live(3, 1)
    assert.deepEqual(stage.taken(), [`dial ${stream} quic`])
    stage.request(`during ${stream}`)
    stage.failDial(stream)
    stage.answer(3, { case: 'resume', value: {} })
    assert.deepEqual(stage.taken(), [`during ${stream} answered`])
    stream++
  }
  assert.deepEqual(stage.losses, [])
})

test('a probe that opens takes over: pending requests are lost, and no loss of the session is reported', () => {
  const stage = probing()
  stage.request('a')
  assert.equal(stage.line(3).requests.at(-1)?.body.case, 'resume', 'the old stream works until then')
  stage.accept(4)
  assert.deepEqual(stage.taken(), ['end 3', 'a lost', 'opened quic'])
  stage.close(3, CloseReason.REPLACED)
  stage.request('b')
  stage.answer(4, { case: 'resume', value: {} })
  assert.deepEqual(stage.taken(), ['b answered'])
  stage.live(4, 20 * MINUTE_MS)
  assert.deepEqual(stage.taken(), [], 'no more probes')
})

test('the old stream may be closed as replaced first', () => {
  const stage = probing()
  stage.request('a')
  stage.close(3, CloseReason.REPLACED, { code: 'closed', message: 'Newer.' })
  stage.request('b')
  assert.deepEqual(stage.taken(), ['end 3', 'a lost', 'b lost'])
  stage.accept(4)
  assert.deepEqual(stage.taken(), ['opened quic'])
  assert.deepEqual(stage.losses, [])
})

test('if the replacing stream fails after all, the loss is reported', () => {
  const stage = probing()
  stage.close(3, CloseReason.REPLACED)
  stage.cut(4)
  assert.deepEqual(stage.taken(), ['end 3', 'end 4', 'lost connection_error'])
  stage.advance(1000)
  assert.deepEqual(stage.taken(), ['dial 5 grpc'])
})

test('replaced before the probe has opened: another process did it', () => {
  const stage = onGrpc()
  stage.live(3, MINUTE_MS)
  stage.dialled(4)
  stage.taken()
  stage.close(3, CloseReason.REPLACED)
  assert.deepEqual(stage.taken(), ['end 3', 'end 4', 'lost transport_error'])
  stage.advance(29_000)
  assert.deepEqual(stage.taken(), [])
})

test('if gRPC is lost during a QUIC probe, the probe becomes the next session', () => {
  const stage = probing()
  stage.cut(3)
  assert.deepEqual(stage.taken(), ['end 3', 'lost connection_error'])
  stage.accept(4)
  assert.deepEqual(stage.taken(), ['opened quic'])
})

test('a hanging probe is given up after 10 s, twice', () => {
  const stage = onGrpc()
  stage.live(3, MINUTE_MS)
  stage.live(3, 9000)
  stage.dialled(4)
  stage.live(3, 9999)
  assert.deepEqual(stage.taken(), ['dial 4 quic'])
  stage.live(3, 1)
  assert.deepEqual(stage.taken(), ['end 4'])
})

test('a probe may be redirected to another port', () => {
  const stage = onGrpc()
  stage.live(3, MINUTE_MS)
  stage.dialled(4)
  stage.taken()
  stage.refuse(4, { code: 'unavailable', message: 'Full.', redirectPort: 4434 })
  assert.deepEqual(stage.taken(), ['end 4', 'dial 5 quic:4434'])
  stage.open(5)
  assert.deepEqual(stage.taken(), ['end 3', 'opened quic'])
})

test('an account probes with its token, and postpones it if the token is about to expire', () => {
  const stage = new Stage({ ...QUIC, tokens: true })
  stage.do({ type: 'start' })
  stage.token(90_000)
  stage.failDial(1)
  stage.advance(100)
  stage.failDial(2)
  stage.advance(200)
  stage.open(3, { expiresInMs: 90_000 })
  stage.taken()
  stage.live(3, MINUTE_MS)
  assert.ok(!stage.taken().some((line) => line.includes('quic')))
})

test('closing during a QUIC probe ends both', () => {
  const stage = probing()
  stage.do({ type: 'close' })
  assert.deepEqual(stage.taken(), ['end 3', 'end 4'])
})
