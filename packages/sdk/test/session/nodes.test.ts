/** The addresses of a relay with several nodes: which one is dialed next. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CloseReason } from '@static/protocol/relay'
import { Nodes } from '../../src/session/nodes.ts'
import { Stage } from './stage.ts'

function nodesOf(stage: Stage): number[] {
  return stage.dials.map(({ node }) => node)
}

test('a first session tries every address before it gives up', () => {
  const stage = new Stage({ addresses: 4 })
  stage.do({ type: 'start' })
  for (let stream = 1; stream <= 4; stream++) {
    assert.equal(stage.firstError, undefined)
    if (stream > 1) stage.redial(stream)
    stage.failDial(stream, `No node ${stream}.`)
  }
  assert.equal(stage.firstError?.message, 'No node 4.')
  assert.deepEqual(nodesOf(stage).sort(), [0, 1, 2, 3])
})

test('with fallback, every address is tried over gRPC before QUIC has its turn again', () => {
  const stage = Stage.opened({ way: 'quic', fallback: true, addresses: 3 })
  stage.cut(1)
  const ways: (string | undefined)[] = []
  for (let stream = 2; stream <= 8; stream++) {
    stage.redial(stream)
    ways.push(stage.lines.get(stream)?.way)
    stage.failDial(stream)
  }
  assert.deepEqual(ways, ['quic', 'quic', 'grpc', 'grpc', 'grpc', 'quic', 'quic'])
  const [, , , ...grpc] = nodesOf(stage)
  assert.equal(new Set(grpc.slice(0, 3)).size, 3, 'each once')
})

test('with fallback, a first session is given up after every address was tried over gRPC', () => {
  const stage = new Stage({ way: 'quic', fallback: true, addresses: 3 })
  stage.do({ type: 'start' })
  for (let stream = 1; stream <= 5; stream++) {
    assert.equal(stage.firstError, undefined)
    if (stream > 1) stage.redial(stream)
    stage.failDial(stream)
  }
  assert.match(stage.firstError?.message ?? '', /gRPC fallback also failed/)
})

test('after a shutdown and after a loss, another node is dialed, and another address of its name', () => {
  const stage = Stage.opened({ addresses: 2 })
  stage.close(1, CloseReason.SHUTDOWN)
  stage.redial(2)
  stage.open(2)
  stage.cut(2)
  stage.redial(3)
  const [first, second, third] = stage.dials
  assert.notEqual(first?.node, second?.node)
  assert.equal(third?.node, first?.node)
  assert.deepEqual(
    stage.dials.map(({ avoidsLast }) => avoidsLast),
    [false, true, true],
  )
})

test('a session that a newer one replaced, or that has expired, stays at its node', () => {
  for (const reason of [CloseReason.REPLACED, CloseReason.EXPIRED]) {
    const stage = Stage.opened({ addresses: 2 })
    stage.close(1, reason)
    stage.redial(2)
    const [first, second] = stage.dials
    assert.deepEqual(second, first)
  }
})

test('a first session does not give up because another server answers at one address', () => {
  const stage = new Stage({ addresses: 3 })
  stage.do({ type: 'start' })
  stage.failDial(1, 'The certificate is not signed.', 'certificate')
  assert.equal(stage.firstError, undefined)
  assert.ok(stage.redial(2) < 1000, 'at once')
  stage.open(2)
  assert.notEqual(stage.dials[1]?.node, stage.dials[0]?.node)
  assert.deepEqual(stage.losses, [])
})

test('if another server answers at one address and none at the others, a first session says so', () => {
  const stage = new Stage({ addresses: 3 })
  stage.do({ type: 'start' })
  stage.failDial(1, 'The certificate is not signed.', 'certificate')
  for (const stream of [2, 3]) {
    stage.redial(stream)
    stage.failDial(stream)
  }
  assert.equal(stage.firstError?.message, 'The certificate is not signed.')
})

test('if other servers answer at every address, a first session fails, and later ones wait', () => {
  const first = new Stage({ addresses: 2 })
  first.do({ type: 'start' })
  first.failDial(1, 'Not signed.', 'certificate')
  first.redial(2)
  first.failDial(2, 'Not signed either.', 'certificate')
  assert.equal(first.firstError?.message, 'Not signed either.')
  const later = Stage.opened({ addresses: 2 })
  later.cut(1)
  later.redial(2)
  later.failDial(2, 'Not signed.', 'certificate')
  assert.ok(later.redial(3) < 1000)
  later.failDial(3, 'Not signed either.', 'certificate')
  assert.equal(later.losses.at(-1)?.message, 'Not signed either.')
  assert.ok(later.redial(4) >= 9000)
})

test('a node where another server answers is skipped for a while', () => {
  const stage = Stage.opened({ addresses: 2 })
  stage.close(1, CloseReason.SHUTDOWN)
  stage.redial(2)
  stage.failDial(2, 'The certificate is not signed.', 'certificate')
  stage.redial(3)
  stage.open(3)
  stage.cut(3)
  stage.redial(4)
  const [first, untrusted, ...rest] = nodesOf(stage)
  assert.notEqual(first, untrusted)
  assert.deepEqual(rest, [first, first])
  stage.open(4)
  stage.live(4, 12_000)
  stage.cut(4)
  stage.redial(5)
  assert.equal(nodesOf(stage).at(-1), untrusted)
})

test('an agent that one node refuses asks another one, after a minute', () => {
  const stage = Stage.opened({ addresses: 2 })
  stage.cut(1)
  stage.redial(2)
  stage.dialled(2)
  stage.challenge(2)
  stage.refuse(2, { code: 'api_key_required', message: 'This relay takes no guests.' })
  assert.ok(stage.redial(3) >= 60_000)
  const [, second, third] = nodesOf(stage)
  assert.notEqual(third, second)
})

test('agents with the same endpoint begin at different nodes', () => {
  const first = (fraction: number): number => new Nodes(3, () => fraction).current
  assert.deepEqual(new Set([first(0), first(0.4), first(0.9)]), new Set([0, 1, 2]))
})
