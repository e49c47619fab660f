/** The runner of the core on lines in memory: one write a turn, order, and listeners that throw. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { CELL_BYTES, CellJoiner, cutEnvelope, StaticError } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema, ServerMessageSchema } from '@static/protocol/relay'
import type { CellStream, Outcome, Transport } from '../../src/ports/index.ts'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { openSession, type OpenedSession, type SessionOptions } from '../../src/session/core-runner.ts'
import { makeMemoryTransport, type MemoryPeer } from '@static/testkit/transport/memory'
import { NONCE, RELAY_ID, RESUME } from './stage.ts'
import { Listener, makeSigner, refusedWith } from './support.ts'

type BodyInit = NonNullable<MessageInitShape<typeof ServerMessageSchema>['body']>

/** A relay in memory that opens every session and answers every request. */
class Relay {
  readonly transport: Transport
  /** The cells of each write. */
  readonly writes: number[] = []
  /** Requests, by case. */
  readonly asked: string[] = []
  peers: MemoryPeer[] = []
  /** Answers are kept back. */
  silent = false

  constructor() {
    this.transport = makeMemoryTransport(
      (peer) => {
        this.peers.push(peer)
        const joiner = new CellJoiner(65_536)
        return {
          data: (chunk) => {
            this.writes.push(chunk.length / CELL_BYTES)
            joiner.push(chunk, ({ type, payload }) => {
              if (type === 'envelope') this.#asked(peer.stream, payload.slice())
            })
          },
          closed: () => {},
        }
      },
      { form: 'protobuf' },
    )
  }

  push(): void {
    const stream = this.peers.at(-1)?.stream
    if (stream) say(stream, 0n, { case: 'keyPackagesLow', value: {} })
  }

  #asked(stream: CellStream, bytes: Uint8Array): void {
    const { requestId, body } = decodeEnvelope('protobuf', ClientMessageSchema, bytes, bytes.length)
    this.asked.push(body.case ?? '')
    if (body.case === 'getChallenge') {
      const value = { nonce: NONCE, relayName: 'relay.test', relayId: RELAY_ID, revision: 2 }
      return say(stream, requestId, { case: 'getChallenge', value })
    }
    if (body.case === 'openSession') {
      const value = { pingIntervalMs: 5000, pingTimeoutMs: 5000 }
      return say(stream, requestId, { case: 'openSession', value })
    }
    if (!this.silent) say(stream, requestId, { case: 'resume', value: {} })
  }
}

function say(stream: CellStream, requestId: bigint, body: BodyInit): void {
  const message = create(ServerMessageSchema, { requestId, body })
  stream.write(cutEnvelope(encodeEnvelope('protobuf', ServerMessageSchema, message)))
}

function open(
  t: TestContext,
  relay: Relay,
  changes: Partial<SessionOptions> = {},
): OpenedSession & { readonly listener: Listener } {
  const listener = new Listener()
  const opened = openSession({
    endpoint: parseEndpoint('https://relay.test'),
    ca: undefined,
    transports: { grpc: relay.transport },
    pins: new Map(),
    ...makeSigner(),
    listener,
    ...changes,
  })
  t.after(() => opened.session.close())
  return { ...opened, listener }
}

test('requests of one turn leave in one write', async (t) => {
  const relay = new Relay()
  const { session, ready, listener } = open(t, relay)
  await ready
  relay.writes.length = 0
  let answers = 0
  for (let at = 0; at < 50; at++) {
    session.request(RESUME, () => {
      answers++
      listener.note('answer')
    })
  }
  session.ack([{ channelId: new Uint8Array(16), index: 1n }])
  await listener.until(() => answers === 50)
  // In whole units: 51, and a cover cell. A unit of cover may leave at any time.
  assert.deepEqual(
    relay.writes.filter((cells) => cells > 2),
    [52],
  )
})

test('done is called after request has returned, and once, even without a session', async (t) => {
  const relay = new Relay()
  const { session, ready, listener } = open(t, relay)
  const outcomes: Outcome['type'][] = []
  const ask = (): void => {
    let returned = false
    session.request(RESUME, ({ type }) => {
      assert.ok(returned, 'done before request has returned')
      outcomes.push(type)
      listener.note(type)
    })
    returned = true
  }
  ask()
  assert.deepEqual(outcomes, [])
  await ready
  assert.deepEqual(outcomes, ['lost'])
  ask()
  await listener.until(() => outcomes.length === 2)
  await session.close()
  ask()
  await Promise.resolve()
  assert.deepEqual(outcomes, ['lost', 'answered', 'lost'])
})

test('a request from within a callback comes after all earlier ones', async (t) => {
  const relay = new Relay()
  const { session, ready, listener } = open(t, relay)
  await ready
  session.request(RESUME, () => {
    listener.note('first')
    void session.close()
    session.request(RESUME, ({ type }) => listener.note(`second ${type}`))
    listener.note('first is over')
  })
  await listener.until(() => listener.log.includes('second lost'))
  await session.close()
  assert.deepEqual(listener.log.slice(-3), ['first', 'first is over', 'second lost'])
  assert.deepEqual(relay.asked, ['getChallenge', 'openSession', 'resume'], 'it was closed before the second was asked')
})

test('listeners and callbacks that throw break nothing', async (t) => {
  const relay = new Relay()
  const bugs: unknown[] = []
  const listener = new Listener()
  const broken = (): never => {
    throw new RangeError('a bug')
  }
  const { session, ready } = open(t, relay, {
    onBug: (error) => {
      bugs.push(error)
      listener.note('bug')
    },
    listener: {
      opened: broken,
      pin: broken,
      lost: broken,
      push: () => {
        listener.note('push')
        broken()
      },
    },
  })
  await ready
  assert.equal(bugs.length, 2, 'pin and opened')
  relay.push()
  relay.push()
  session.request(RESUME, broken)
  await listener.until(() => bugs.length === 5)
  assert.deepEqual(listener.log.filter((what) => what === 'push').length, 2)
  relay.peers[0]?.cut()
  await listener.until(() => bugs.length === 6)
})

test('it reconnects when the connection is cut, and continues', async (t) => {
  const relay = new Relay()
  const { session, ready, listener } = open(t, relay)
  await ready
  relay.silent = true
  session.request(RESUME, ({ type }) => listener.note(type))
  relay.peers[0]?.cut()
  await listener.until(() => listener.infos.length === 2)
  assert.deepEqual(listener.log, ['pin', 'opened', 'lost', 'lost', 'opened'])
  assert.equal(relay.peers.length, 2)
})

test('closing ends the stream before it resolves; pending requests are lost', async (t) => {
  const relay = new Relay()
  const { session, ready, listener } = open(t, relay)
  await ready
  relay.silent = true
  session.request(RESUME, ({ type }) => listener.note(type))
  const closed = session.close()
  assert.equal(session.close(), closed)
  await closed
  assert.deepEqual(listener.log, ['pin', 'opened', 'lost'])
  assert.equal(relay.asked.at(-1), 'resume', 'what was written has left')
})

test('closing before the first session rejects ready', async (t) => {
  const relay = new Relay()
  const { session, ready } = open(t, relay)
  await session.close()
  await assert.rejects(ready, refusedWith('closed', /before it opened/))
})

test('a pinned relay is found by the host of the endpoint', async (t) => {
  const relay = new Relay()
  const { ready } = open(t, relay, { pins: new Map([['relay.test', { relayId: new Uint8Array(32), grpcPort: 0 }]]) })
  await assert.rejects(ready, refusedWith('relay_changed', /has changed/))
  const { ready: fine, listener } = open(t, relay, {
    pins: new Map([['relay.test', { relayId: RELAY_ID, grpcPort: 0 }]]),
  })
  await fine
  assert.deepEqual(listener.log, ['opened'], 'nothing new to pin')
})

test('tokens come from their source, and its errors reach the waiting caller', async (t) => {
  const relay = new Relay()
  const { ready, listener } = open(t, relay, {
    tokens: () => Promise.resolve({ jwt: 'jwt', expiresAt: Date.now() + 3_600_000 }),
  })
  await ready
  assert.equal(listener.infos[0]?.guest, false)
  const error = StaticError.of('auth_key_invalid', 'No such key.')
  const { ready: refused } = open(t, relay, { tokens: () => Promise.reject(error) })
  await assert.rejects(refused, error)
})

test('without a QUIC transport a QUIC endpoint is unreachable', async (t) => {
  const relay = new Relay()
  const { ready } = open(t, relay, { endpoint: parseEndpoint('quic://relay.test') })
  await assert.rejects(ready, refusedWith('connection_error', /no QUIC/))
})
