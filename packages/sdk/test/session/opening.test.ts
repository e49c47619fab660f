/** How a session opens: what is checked before anything is signed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ENVELOPE_LIMITS, sessionBytes, toHex } from '@static/protocol'
import { CloseReason, Purpose, TrafficProfile } from '@static/protocol/relay'
import { oldRelay } from '../../src/session/failure.ts'
import { NONCE, RELAY_ID, Stage } from './stage.ts'

const OTHER_RELAY = new Uint8Array(32).fill(1)

for (const way of ['quic', 'grpc'] as const) {
  test(`a guest's session opens over ${way}: challenge, signature, pin, then the listener is notified`, () => {
    const stage = new Stage({ way, traffic: 'strict', cellsPerSecond: 9 })
    stage.do({ type: 'start' })
    assert.deepEqual(stage.taken(), [`dial 1 ${way}`])
    stage.dialled(1)
    assert.deepEqual(stage.asked(1).body, {
      case: 'getChallenge',
      value: { $typeName: 'static.relay.v1.GetChallengeRequest', revision: 2 },
    })
    stage.challenge(1, { revision: 7 })
    const { body } = stage.asked(1)
    assert.ok(body.case === 'openSession')
    assert.equal(body.value.purpose, Purpose.SESSION)
    assert.equal(body.value.revision, 2, 'the lower one of both')
    assert.equal(body.value.trafficProfile, TrafficProfile.STRICT)
    assert.equal(body.value.cellsPerSecond, 9)
    assert.equal(body.value.jwt, '')
    assert.deepEqual(new Uint8Array(body.value.relayNonce), NONCE)
    const claim = {
      purpose: 'session',
      revision: 2,
      relayName: 'relay.test',
      relayId: RELAY_ID,
      relayNonce: NONCE,
      agentNonce: body.value.agentNonce,
      jwtHash: undefined,
      traffic: 'strict',
      cellsPerSecond: 9,
    } as const
    assert.deepEqual(stage.signed, [sessionBytes(claim)])
    stage.accept(1, { keyPackages: 3 })
    assert.deepEqual(stage.taken(), ['pace 1 steady', 'pin relay.test', `opened ${way}`])
    assert.deepEqual(stage.infos, [
      {
        way,
        node: 0,
        keyPackages: 3,
        nonce: NONCE,
        guest: true,
        relay: { relayId: RELAY_ID, grpcPort: 0 },
        announced: { port: 0, url: '' },
      },
    ])
  })
}

test('a relay whose name differs from its certificate gets no signature', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.dialled(1, 'other.test')
  stage.challenge(1)
  assert.deepEqual(stage.taken(), ['dial 1 grpc', 'end 1', 'failed connection_error'])
  assert.match(stage.firstError?.message ?? '', /calls itself "relay.test", but its certificate is for other.test/)
  assert.deepEqual(stage.signed, [])
})

test('a relay other than the pinned one gets no signature, over either transport', () => {
  for (const way of ['quic', 'grpc'] as const) {
    const stage = new Stage({ way, known: { relayId: OTHER_RELAY, grpcPort: 0 } })
    stage.do({ type: 'start' })
    stage.dialled(1)
    stage.challenge(1)
    const relay = { name: 'relay.test', known: toHex(OTHER_RELAY), answering: toHex(RELAY_ID) }
    assert.equal(stage.firstError?.code, 'relay_changed')
    assert.equal(stage.firstError.retryable, false)
    assert.deepEqual(stage.firstError.details.relay, relay)
    assert.match(stage.firstError.message, /^The relay at relay\.test has changed: this agent knows relay 0101/)
    assert.deepEqual(stage.signed, [])
  }
})

test('exactly the accepted relay takes the place of the known one; any other gets no signature', () => {
  const known = { relayId: OTHER_RELAY, grpcPort: 5443 }
  const stage = new Stage({ known, accepted: RELAY_ID })
  stage.do({ type: 'start' })
  stage.open(1)
  assert.deepEqual(stage.taken(), ['dial 1 grpc', 'pin relay.test', 'opened grpc'])
  // The port of the old relay does not become that of the new one.
  assert.deepEqual(stage.pins, [{ relayId: RELAY_ID, grpcPort: 0 }])

  const wrong = new Stage({ known, accepted: new Uint8Array(32).fill(2) })
  wrong.do({ type: 'start' })
  wrong.dialled(1)
  wrong.challenge(1)
  assert.equal(wrong.firstError?.details.relay?.answering, toHex(RELAY_ID))
  assert.deepEqual(wrong.signed, [])
})

test('an agent that knows no relay yet meets only the accepted one', () => {
  const stage = new Stage({ accepted: OTHER_RELAY })
  stage.do({ type: 'start' })
  stage.dialled(1)
  stage.challenge(1)
  assert.equal(stage.firstError?.code, 'relay_changed')
  assert.equal(stage.firstError.details.relay?.known, null)
  assert.deepEqual(stage.signed, [])
})

test('a relay that changed its id while the agent was away is retried only once a minute', () => {
  const stage = Stage.opened()
  stage.live(1, 20_000)
  stage.cut(1)
  stage.advance(100)
  stage.dialled(2)
  stage.challenge(2, { relayId: new Uint8Array(32).fill(1) })
  assert.deepEqual(stage.taken().slice(-2), ['end 2', 'lost relay_changed'])
  stage.advance(59_900)
  assert.deepEqual(stage.taken(), [])
  stage.advance(1100)
  assert.deepEqual(stage.taken(), ['dial 3 grpc'])
})

test('an incomplete challenge violates the protocol', () => {
  for (const changes of [{ nonce: new Uint8Array(31) }, { relayId: new Uint8Array(1) }]) {
    const stage = new Stage()
    stage.do({ type: 'start' })
    stage.dialled(1)
    stage.challenge(1, changes)
    assert.deepEqual(stage.signed, [])
    assert.ok(stage.ended.has(1))
  }
})

test('a relay of revision 1 is refused with a sentence that says so, and not dialled again at once', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.dialled(1)
  stage.challenge(1, { revision: 1 })
  assert.deepEqual(stage.signed, [])
  assert.deepEqual(stage.taken().slice(-2), ['end 1', 'failed version_mismatch'])
  assert.match(oldRelay(1).error.message, /The relay uses protocol revision 1, and this agent needs 2 or later/u)
})

test('an agent whose revision the relay refuses gives up its first session, and later asks once a minute', () => {
  const refusal = { code: 'version_mismatch', message: 'Update the agent.' }
  const first = new Stage()
  first.do({ type: 'start' })
  first.dialled(1)
  first.refuse(1, refusal)
  assert.deepEqual(first.taken().slice(-1), ['failed version_mismatch'])
  assert.equal(first.firstError?.retryable, false)
  const later = Stage.opened()
  later.live(1, 20_000)
  later.cut(1)
  later.advance(100)
  later.dialled(2)
  later.refuse(2, refusal)
  assert.deepEqual(later.taken().slice(-1), ['lost version_mismatch'])
  later.advance(59_900)
  assert.deepEqual(later.taken(), [])
})

test('no long envelope is accepted before the session is open; afterwards even a commit of 4 MiB is', () => {
  const stage = new Stage()
  stage.do({ type: 'start' })
  stage.dialled(1)
  stage.challenge(1, { relayName: 'x'.repeat(ENVELOPE_LIMITS.unauthenticated) })
  assert.ok(stage.ended.has(1))
  stage.advance(1000)
  stage.open(2)
  const ids = { channelId: new Uint8Array(16), sender: new Uint8Array(32), messageId: new Uint8Array(16) }
  stage.send(2, 0n, { case: 'deliverCommit', value: { ...ids, commit: new Uint8Array(ENVELOPE_LIMITS.member) } })
  assert.equal(stage.pushes.length, 1)
  assert.ok(!stage.ended.has(2))
})

test('an opening that takes 10 s fails, and so does a dial that takes 20 s', () => {
  const stage = new Stage({ way: 'quic' })
  stage.do({ type: 'start' })
  stage.advance(9999)
  stage.dialled(1)
  stage.challenge(1)
  stage.advance(9999)
  assert.deepEqual(stage.taken(), ['dial 1 quic'])
  stage.advance(1)
  assert.deepEqual(stage.taken(), ['end 1'])
  stage.advance(100)
  assert.deepEqual(stage.taken(), ['dial 2 quic'])
  stage.advance(20_000)
  assert.deepEqual(stage.taken(), ['failed connection_error'])
  // It comes about after all, and nobody wants it any more.
  stage.dialled(2)
  assert.deepEqual(stage.taken(), ['end 2'])
})

test('a full port redirects to another one, at most five times', () => {
  const stage = new Stage({ way: 'quic' })
  stage.do({ type: 'start' })
  for (let hop = 1; hop <= 5; hop++) {
    stage.dialled(hop)
    const error = { code: 'unavailable', message: 'Full.', redirectPort: 4433 + hop }
    if (hop % 2 === 0) stage.refuse(hop, error)
    else stage.close(hop, CloseReason.SHUTDOWN, error)
    assert.deepEqual(stage.taken().slice(-2), [`end ${hop}`, `dial ${hop + 1} quic:${4433 + hop}`])
  }
  stage.dialled(6)
  stage.refuse(6, { code: 'unavailable', message: 'Full.', redirectPort: 4439 })
  assert.deepEqual(stage.taken(), ['end 6'])
  stage.advance(100)
  assert.deepEqual(stage.taken(), ['dial 7 quic'], 'from the beginning')
})
