/** Agents behind a proxy have turns and memory by their own addresses, which the proxy names. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { Turns } from '@static/node/turns'
import { cutEnvelope } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema } from '@static/protocol/relay'
import type { Input } from '../../src/core/io.ts'
import type { Peer, StreamId, Transport } from '../../src/ports.ts'
import { helloCells, requestCells } from '../../src/proxy/relay-cells.ts'
import type { Waiting } from '../../src/runner/context.ts'
import { Links } from '../../src/runner/links.ts'
import { settingsFrom } from '../../src/settings.ts'

const PER_TURN = 4
const TRANSPORT: Transport = { write: () => {}, pace: () => {}, end: () => {}, stop: async () => {} }
const PROXY: Peer = { transport: 'quic', form: 'cbor', address: '192.0.2.1', proxy: true }
const ASK = requestCells(create(ClientMessageSchema, { requestId: 1n, body: { case: 'getChallenge', value: {} } }))

interface World {
  readonly open: (peer: Peer) => StreamId
  readonly write: (id: StreamId, cells: Uint8Array) => void
  /** What the core was given: stream and request, or `malformed`. */
  readonly given: string[]
  readonly turn: () => void
}

function makeWorld(joiningBytes = 1 << 20): World {
  const given: string[] = []
  let [streams, next] = [0, () => {}]
  const handle = (input: Input): void => {
    if (input.type === 'received') given.push(`${input.stream} ${input.message.body.case}`)
    if (input.type !== 'malformed') return
    given.push(`${input.stream} malformed`)
    links.end(input.stream)
  }
  const turns = new Turns<Waiting>({
    perTurn: PER_TURN,
    run: ({ run }) => run(),
    isGone: ({ isGone }) => isGone(),
    nextTurn: (act) => (next = act),
  })
  const settings = settingsFrom({ streams: { joiningBytes } })
  const links = new Links({ settings, now: () => 0, handle, nextStream: () => ++streams, turns })
  const handler = links.streams(() => TRANSPORT)
  return {
    given,
    open: (peer) => {
      const id = handler.opened(peer) ?? 0
      links.limit(id, 65_536)
      return id
    },
    write: (id, cells) => handler.received(id, cells),
    turn: () => {
      const act = next
      next = () => {}
      act()
    },
  }
}

/** A call through a proxy. */
function call({ open, write }: World, address: string): StreamId {
  const id = open(PROXY)
  write(id, helloCells(address, true))
  write(id, ASK)
  return id
}

test('an agent that makes many calls does not hold up another one behind the same proxy', () => {
  const world = makeWorld()
  const flood = Array.from({ length: 100 }, () => call(world, '198.51.100.1'))
  const honest = call(world, '203.0.113.1')
  const hellos = world.given.filter((line) => line.endsWith('proxyHello'))
  assert.equal(hellos.length, flood.length + 1, 'a hello is handled at once')
  world.turn()
  assert.ok(world.given.includes(`${honest} getChallenge`))
})

test('the agents of a /48 behind a proxy have the turns of 16 addresses', () => {
  const world = makeWorld()
  for (let at = 0; at < 400; at++) call(world, `2001:db8:1:${at.toString(16)}::1`)
  const honest = call(world, '203.0.113.1')
  for (let count = 0; count < 16 / PER_TURN + 1; count++) world.turn()
  assert.ok(world.given.includes(`${honest} getChallenge`))
})

test('when memory is short, the address that holds the most gives way, not the agents of a proxy', () => {
  const { open, write, given } = makeWorld(400_000)
  const body = { case: 'requestJoin', value: { box: new Uint8Array(16_000) } } as const
  const message = create(ClientMessageSchema, { requestId: 2n, body })
  const part = cutEnvelope(encodeEnvelope('cbor', ClientMessageSchema, message)).subarray(0, -1024)
  const honest = Array.from({ length: 12 }, (_, at) => {
    const id = open(PROXY)
    write(id, helloCells(`203.0.113.${at + 1}`))
    write(id, part)
    return id
  })
  // Two that come directly, with eleven streams each: less than the agents of the proxy together.
  for (let count = 0; count < 22; count++) {
    write(open({ ...PROXY, proxy: false, address: `198.51.100.${1 + (count % 2)}` }), part)
  }
  const closed = given.filter((line) => line.endsWith('malformed'))
  assert.ok(closed.length > 0)
  for (const id of honest) assert.ok(!closed.includes(`${id} malformed`), `stream ${id} of an honest agent`)
})

test('only a proxy can name an address, and only once for a stream', () => {
  const { open, write, given, turn } = makeWorld()
  const busy = open({ ...PROXY, address: '192.0.2.2' })
  for (let count = 0; count < PER_TURN; count++) write(busy, ASK)
  // They share one place in the turns, whatever they say.
  const liars = Array.from({ length: 3 * PER_TURN }, (_, at) => {
    const id = open({ ...PROXY, proxy: false, address: '198.51.100.1' })
    write(id, helloCells(`203.0.113.${at + 1}`))
    return id
  })
  const twice = open(PROXY)
  write(twice, helloCells('198.51.100.1'))
  write(twice, helloCells('203.0.113.99'))
  write(open({ ...PROXY, proxy: false, address: '203.0.113.7' }), ASK)
  assert.equal(given.length, PER_TURN + 1, 'the first hello of the proxy is handled at once, the others wait')
  turn()
  const handled = given.slice(PER_TURN + 1).map((line) => Number(line.split(' ')[0]))
  assert.deepEqual(handled, [liars[0], twice + 1, liars[1], liars[2]])
})
