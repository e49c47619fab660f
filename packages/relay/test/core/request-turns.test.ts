/** Costly requests wait for their turn in front of the core; messages do not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { Turns } from '@static/node/turns'
import { cutEnvelope } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { type ClientMessage, ClientMessageSchema } from '@static/protocol/relay'
import type { Input } from '../../src/core/io.ts'
import type { StreamHandler, StreamId, Transport } from '../../src/ports.ts'
import type { Waiting } from '../../src/runner/context.ts'
import { Links } from '../../src/runner/links.ts'
import { settingsFrom } from '../../src/settings.ts'

const PER_TURN = 4
const LIMIT = 10
const PROBE = '192.0.2.2'
const TRANSPORT = {} as Transport

interface World {
  readonly streams: StreamHandler
  readonly open: (address: string) => StreamId
  readonly send: (id: StreamId, name: 'getChallenge' | 'sendMessage', requestId: number) => void
  /** What the core was given, except for openings of streams: stream and request, or type. */
  readonly given: string[]
  readonly turn: () => void
}

function makeWorld(): World {
  const given: string[] = []
  let [streams, next] = [0, () => {}]
  const handle = (input: Input): void => {
    if (input.type === 'received') given.push(`${input.stream} ${input.message.requestId}`)
    else if (input.type !== 'opened') given.push(input.type)
  }
  const turns = new Turns<Waiting>({
    perTurn: PER_TURN,
    run: ({ run }) => run(),
    isGone: ({ isGone }) => isGone(),
    nextTurn: (act) => (next = act),
  })
  const settings = settingsFrom({ streams: { requests: LIMIT } })
  const links = new Links({ settings, now: () => 0, handle, nextStream: () => ++streams, turns })
  const handler = links.streams(() => TRANSPORT)
  return {
    streams: handler,
    given,
    open: (address) => handler.opened({ transport: 'quic', form: 'cbor', address, proxy: false }) ?? 0,
    send: (id, name, requestId) => {
      const body = { case: name, value: {} } as ClientMessage['body']
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

test('what one stream sends keeps its order, and what a closed one has sent is forgotten', () => {
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
  assert.ok(!given.includes('flooded'))
  send(flooder, 'getChallenge', LIMIT + 1)
  assert.equal(given.at(-1), 'flooded')
})
