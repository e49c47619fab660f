/** Every transport gives the reason of a failure for programs, also from its own thread. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createSecureServer } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { createQuicServer } from '@currentspace/http3'
import { ConnectionError, type ConnectionFailure } from '@static/node/connection-error'
import { ALPN } from '@static/protocol'
import type { Target, Transport } from '../../src/ports/index.ts'
import { makeClockedTransport } from '../../src/transport/clock.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'
import { newAuthority } from '@static/testkit/certificates'

type Way = 'quic' | 'grpc'

const authority = await newAuthority()
const stranger = await newAuthority()
const pair = await authority.issue(['localhost'])
/** Where an answer comes, it may come late: the machine can be busy. Only where none comes is it short. */
const [PATIENT, SHORT] = [{ connectTimeoutMs: 120_000 }, { connectTimeoutMs: 1_000 }]

type Make = (options: { readonly connectTimeoutMs: number }) => Transport
const TRANSPORTS: readonly (readonly [string, Way, Make])[] = [
  ['QUIC', 'quic', makeQuicTransport],
  ['gRPC', 'grpc', makeGrpcTransport],
  ['QUIC on a clock', 'quic', (options) => makeClockedTransport({ way: 'quic', ...options })],
  ['gRPC on a clock', 'grpc', (options) => makeClockedTransport({ way: 'grpc', ...options })],
]

/** A port that shows a certificate. */
async function openServer(t: TestContext, way: Way): Promise<number> {
  if (way === 'quic') {
    const server = createQuicServer({
      ...pair,
      alpn: [ALPN],
      runtimeMode: 'portable',
      disableRetry: false,
      maxConnections: 9,
    })
    t.after(() => server.close())
    return (await server.listen(0, '127.0.0.1')).port
  }
  const server = createSecureServer({ ...pair, minVersion: 'TLSv1.3' })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

/** A port that takes everything and says nothing. */
async function openSilentPort(way: Way): Promise<{ readonly port: number; close(): Promise<void> }> {
  const opened =
    way === 'quic'
      ? createSocket('udp4').bind(0, '127.0.0.1')
      : createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1')
  await once(opened, 'listening')
  const { port } = opened.address() as AddressInfo
  return { port, close: () => new Promise((resolve) => opened.close(() => resolve())) }
}

for (const [name, way, make] of TRANSPORTS) {
  void describe(`over ${name}`, () => {
    const fails = async (reason: ConnectionFailure, target: Partial<Target>, patience = PATIENT): Promise<void> => {
      const whole = { host: '127.0.0.1', port: 1, serverName: 'localhost', ca: authority.cert, ...target }
      await assert.rejects(make(patience).dial(whole, { data: () => {}, closed: () => {} }), (error: unknown) => {
        assert.ok(error instanceof ConnectionError, String(error))
        assert.deepEqual([error.code, error.reason], ['connection_error', reason], error.message)
        return true
      })
    }

    void test('an untrusted certificate', async (t) => {
      const port = await openServer(t, way)
      await fails('untrusted_certificate', { port, ca: stranger.cert })
      await fails('untrusted_certificate', { port, serverName: 'relay.example' })
      if (way === 'quic') await fails('unreadable_authority', { port, ca: 'nonsense' })
    })

    void test('a name without an address, a silent port, and a closed one', async () => {
      await fails('no_address', { host: 'no.invalid' })
      const silent = await openSilentPort(way)
      await fails('timed_out', { port: silent.port }, SHORT)
      await silent.close()
      await fails('refused', { port: silent.port })
    })
  })
}
