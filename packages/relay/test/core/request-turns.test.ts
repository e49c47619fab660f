/** Costly requests wait for their turn in front of the core; messages do not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { Turns } from '@static/node/turns'
import { cutEnvelope } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { type ClientMessage, ClientMessageSchema } from '@static/protocol/relay'
import type { Input } from '../../src/core/io.ts'
import type { Peer, StreamHandler, StreamId, Transport } from '../../src/ports.ts'
import { REQUEST_BYTES, type Waiting } from '../../src/runner/context.ts'
import { Exchanges } from '../../src/runner/exchanges.ts'
import { Links } from '../../src/runner/links.ts'
import { settingsFrom } from '../../src/settings.ts'

const PER_TURN = 4
const LIMIT = 10
const PROBE = '192.0.2.2'
const TRANSPORT: Transport = { write: () => {}, pace: () => {}, end: () => {}, stop: async () => {} }
const STREAM_BYTES = 64 * 1024
/** Two resumptions of these fit into the bytes of a stream. */
const CHANNELS = Array.from({ length: 900 }, () => new Uint8Array(32))

interface World {
  readonly streams: StreamHandler
  readonly exchanges: Exchanges
  readonly open: (address: string) => StreamId
  readonly send: (id: StreamId, name: 'getChallenge' | 'sendMessage' | 'resume', requestId: number) => void
  /** What the core was given, except for openings of streams: stream and request, or type. */
  readonly given: string[]
  readonly turn: () => void
}

function makeWorld(totalRequestBytes = 10 * STREAM_BYTES): World {
  const given: string[] = []
  let [streams, next] = [0, () => {}]
  const handle = (input: Input): void => {
    if (input.type === 'received') given.push(`${input.stream} ${input.message.requestId}`)
    else if (input.type === 'flooded') {
      given.push(`flooded ${input.stream}`)
      links.end(input.stream)
    } else if (input.type !== 'opened') given.push(input.type)
  }
  const turns = new Turns<Waiting>({
    perTurn: PER_TURN,
    run: ({ run }) => run(),
    isGone: ({ isGone }) => isGone(),
    nextTurn: (act) => (next = act),
  })
  const settings = settingsFrom({ streams: { requests: LIMIT, requestBytes: STREAM_BYTES, totalRequestBytes } })
  const context = { settings, now: () => 0, handle, nextStream: () => ++streams, turns }
  const links = new Links(context)
  const exchanges = new Exchanges(context)
  const handler = links.streams(() => TRANSPORT)
  return {
    streams: handler,
    exchanges,
    given,
    open: (address) => {
      const id = handler.opened({ transport: 'quic', form: 'cbor', address, proxy: false }) ?? 0
      links.limit(id, STREAM_BYTES)
      return id
    },
    send: (id, name, requestId) => {
      const value = name === 'resume' ? { channelIds: CHANNELS } : {}
      const body = { case: name, value } as ClientMessage['body']
      const message = create(ClientMessageSchema, { requestId: BigInt(requestId), body })
      handler.received(id, cutEnvelope(encodeEnvelope('cbor', ClientMessageSchema, message)))
    },
    turn: () => {
      const act = next
      next = () => {}
      act()
    },
  }
}

test('a burst of costly requests is handled in turns, and delays neither messages nor other addresses', () => {
  const { open, send, given, turn } = makeWorld()
  const crowd = Array.from({ length: 20 }, () => open('192.0.2.1'))
  for (const id of crowd) send(id, 'getChallenge', 1)
  assert.equal(given.length, PER_TURN)
  const probe = open(PROBE)
  send(probe, 'sendMessage', 1)
  assert.equal(given.at(-1), `${probe} 1`, 'a message is handled at once')
  send(probe, 'getChallenge', 2)
  turn()
  assert.equal(given.length, 1 + 2 * PER_TURN)
  assert.ok(given.includes(`${probe} 2`), 'another address is next')
  for (let count = 0; count < 10; count++) turn()
  assert.equal(given.length, 22)
})

test('a /48 has the turns of 16 addresses, not of its 65,536 networks', () => {
  const { open, send, given, turn } = makeWorld(1 << 30)
  const crowd = Array.from({ length: 400 }, (_, at) => open(`2001:db8:1:${at.toString(16)}::1`))
  for (let round = 1; round <= 2; round++) for (const id of crowd) send(id, 'getChallenge', round)
  const probe = open(PROBE)
  send(probe, 'getChallenge', 1)
  for (let count = 0; count < 16 / PER_TURN + 1; count++) turn()
  assert.ok(given.includes(`${probe} 1`))
})

test('requests of one stream keep their order, and those of a closed one are forgotten', () => {
  const { streams, open, send, given, turn } = makeWorld()
  const crowd = Array.from({ length: 6 }, () => open('192.0.2.1'))
  for (const id of crowd) send(id, 'getChallenge', 1)
  const [gone = 0, last = 0] = crowd.slice(-2)
  send(last, 'sendMessage', 2)
  assert.ok(!given.includes(`${last} 2`))
  streams.closed(gone)
  turn()
  assert.deepEqual(given.slice(PER_TURN), ['closed', `${last} 1`, `${last} 2`])
  send(last, 'sendMessage', 3)
  assert.equal(given.at(-1), `${last} 3`, 'nothing waits any more')
})

test('a stream with more waiting requests than may be unanswered is reported', () => {
  const { open, send, given } = makeWorld()
  const [busy, flooder] = [open('192.0.2.1'), open('192.0.2.1')]
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  for (let at = 1; at <= LIMIT; at++) send(flooder, 'getChallenge', at)
  assert.ok(!given.includes(`flooded ${flooder}`))
  send(flooder, 'getChallenge', LIMIT + 1)
  assert.equal(given.at(-1), `flooded ${flooder}`)
})

test('a request counts with all its bytes while it waits', () => {
  const { open, send, given } = makeWorld()
  const [busy, flooder] = [open('192.0.2.1'), open('192.0.2.1')]
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  send(flooder, 'resume', 1)
  send(flooder, 'resume', 2)
  assert.equal(given.length, PER_TURN)
  send(flooder, 'resume', 3)
  assert.equal(given.at(-1), `flooded ${flooder}`)
})

test('a request is decoded in its turn, so that what waits takes no more memory than its bytes', () => {
  const { streams, open, send, given, turn } = makeWorld()
  const [busy, waiting] = [open('192.0.2.1'), open('192.0.2.1')]
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  // ClientMessage { request_id: 1, ack: { positions: 900 empty ones } }: refused, but only once it is decoded.
  const envelope = new Uint8Array(910).fill(0xa0)
  envelope.set([0xa2, 1, 1, 4, 0xa1, 1, 0x99, 3, 0x84])
  streams.received(waiting, cutEnvelope(envelope))
  send(waiting, 'getChallenge', 2)
  assert.equal(given.length, PER_TURN)
  turn()
  assert.deepEqual(given.slice(PER_TURN), ['malformed', `${waiting} 2`])
})

test('a pending request does not keep the chunk in memory that it came in', () => {
  const { streams, open, send, given, turn } = makeWorld()
  const [busy, waiting] = [open('192.0.2.1'), open('192.0.2.1')]
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  const message = create(ClientMessageSchema, { requestId: 7n, body: { case: 'getChallenge', value: {} } })
  const cell = cutEnvelope(encodeEnvelope('cbor', ClientMessageSchema, message))
  streams.received(waiting, cell)
  // Whoever reuses the chunk does not change what waits.
  cell.fill(0xff)
  turn()
  assert.equal(given.at(-1), `${waiting} 7`)
})

test('when too much is pending for one address, its stream with the most is closed, and no other', () => {
  const { open, send, given, turn } = makeWorld(2 * LIMIT * REQUEST_BYTES)
  const busy = open('192.0.2.1')
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  const crowd = [LIMIT, LIMIT - 1, 1].map((count) => {
    const id = open('192.0.2.1')
    for (let at = 1; at <= count; at++) send(id, 'getChallenge', at)
    return id
  })
  const probe = open(PROBE)
  send(probe, 'getChallenge', 1)
  assert.deepEqual(given.slice(PER_TURN), [`flooded ${crowd[0]}`])
  turn()
  assert.ok(given.includes(`${probe} 1`))
  assert.ok(!given.some((line) => line.startsWith(`${crowd[0]} `)), 'what the closed one has sent takes no turn')
  assert.equal(given.length, 1 + 2 * PER_TURN)
})

const CROWDS: Readonly<Record<string, (at: number) => string>> = {
  'one address': () => '192.0.2.1',
  'a /48': (at) => `2001:db8:1:${at.toString(16)}::1`,
}

for (const [name, addressOf] of Object.entries(CROWDS)) {
  test(`when many streams of ${name} fill the memory, those are closed, not a stream with a longer request`, () => {
    const { open, send, given } = makeWorld(40 * STREAM_BYTES)
    const busy = open('192.0.2.3')
    for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
    const victim = open(PROBE)
    send(victim, 'resume', 1)
    const crowd = Array.from({ length: 800 }, (_, at) => open(addressOf(at)))
    for (let round = 1; round < LIMIT; round++) for (const id of crowd) send(id, 'getChallenge', round)
    const closed = given.filter((line) => line.startsWith('flooded'))
    assert.ok(closed.length > 100, `${closed.length} closed`)
    assert.ok(!closed.includes(`flooded ${victim}`))
  })
}

test('a stream with many waiting requests does not hold up the others of its address', () => {
  const { open, send, given, turn } = makeWorld()
  const [busy, other] = [open('192.0.2.1'), open('192.0.2.1')]
  for (let at = 1; at <= PER_TURN + LIMIT; at++) send(busy, 'getChallenge', at)
  send(other, 'getChallenge', 1)
  turn()
  assert.ok(given.includes(`${other} 1`))
  for (let count = 0; count < LIMIT; count++) turn()
  const expected = Array.from({ length: PER_TURN + LIMIT }, (_, at) => `${busy} ${at + 1}`)
  assert.deepEqual(
    given.filter((line) => line.startsWith(`${busy} `)),
    expected,
  )
})

test('a long call waits for its turn to be decoded, unless its caller has gone', async () => {
  const { open, send, exchanges, given, turn } = makeWorld()
  const busy = open('192.0.2.1')
  const peer: Peer = { transport: 'grpc', form: 'protobuf', address: '192.0.2.1', proxy: false }
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  const begun: string[] = []
  const waits = ['gone', 'here'].map(async (name) => {
    await exchanges.turn(peer, () => name === 'gone')
    begun.push(name)
  })
  await Promise.resolve()
  assert.deepEqual(begun, [])
  turn()
  await waits[1]
  assert.deepEqual(begun, ['here'])
  assert.equal(given.length, PER_TURN)
})

test('a subscription waits for its turn', () => {
  const { open, send, exchanges, given, turn } = makeWorld()
  const busy = open('192.0.2.1')
  for (let at = 1; at <= PER_TURN; at++) send(busy, 'getChallenge', at)
  const peer: Peer = { transport: 'grpc', form: 'protobuf', address: '192.0.2.1', proxy: false }
  const message = create(ClientMessageSchema, { requestId: 1n, body: { case: 'resume', value: {} } })
  const sink = { write: () => true, end: () => {} }
  exchanges.subscribe(peer, message, sink)
  exchanges.subscribe(peer, message, sink).close()
  assert.deepEqual(given.slice(PER_TURN), ['closed'])
  turn()
  turn()
  assert.equal(given.length, PER_TURN + 2, 'one that has been closed is forgotten')
})
