/** A real relay at a limit of its connections: who is refused learns why, and others notice nothing. */
import assert from 'node:assert/strict'
import { request } from 'node:https'
import { test, type TestContext } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { ResumeRequestSchema } from '@static/protocol/relay'
import { startTestRelay, type TestRelay } from '@static/testkit/relay'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { openSession, type OpenedSession, type SessionOptions } from '../../src/session/core-runner.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'
import { call, Listener, makeSigner, refusedWith } from './support.ts'

type Way = 'quic' | 'grpc'

const TRANSPORTS = { quic: makeQuicTransport(), grpc: makeGrpcTransport() }
const LIMITS = {
  quic: {
    limit: 'quicPerEndpoint',
    code: 'unavailable',
    // Who was refused before, or has dialled twice, may still be there: then there is no room even to say how many.
    message: /(has room for another guest|accepts no more connections at the moment)\. Retry later, or use gRPC/,
  },
  grpc: {
    limit: 'connectionsPerAddress',
    code: 'rate_limited',
    message: /^This address has 1 connections to the relay, the limit\. Close some/,
  },
} as const

async function startFull(t: TestContext, way: Way): Promise<{ relay: TestRelay; lines: string[] }> {
  const lines: string[] = []
  // No ping gets lost on a busy machine.
  const session = { pingMs: 30_000, pongMs: 30_000 }
  const settings = { session, streams: { [LIMITS[way].limit]: 1 } }
  const relay = await startTestRelay(way, { settings, log: (line) => lines.push(line) })
  t.after(() => relay.close())
  return { relay, lines }
}

function endpointOf(relay: TestRelay, way: Way): SessionOptions['endpoint'] {
  return parseEndpoint(
    way === 'quic' ? `quic://127.0.0.1:${relay.quicPorts[0]}` : `https://127.0.0.1:${relay.grpcPort}`,
  )
}

function open(t: TestContext, relay: TestRelay, way: Way, grpcPort?: number): OpenedSession & { listener: Listener } {
  const listener = new Listener()
  const opened = openSession({
    endpoint: endpointOf(relay, way),
    fallback: grpcPort !== undefined,
    grpcPort,
    ca: relay.ca,
    transports: TRANSPORTS,
    pins: new Map(),
    ...makeSigner(),
    traffic: 'off',
    listener,
  })
  t.after(() => opened.session.close())
  return { ...opened, listener }
}

/** How often a limit has refused a peer, as the relay's metrics say. */
function refusals({ ca, grpcPort }: TestRelay, limit: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({
      host: '127.0.0.1',
      servername: 'localhost',
      port: grpcPort,
      path: '/metrics',
      ca,
      agent: false,
    })
    asked.on('error', reject).on('response', (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += String(chunk)))
      response.on('end', () => {
        resolve(Number(new RegExp(`limit_refusals_total\\{limit="${limit}"\\} (\\d+)`).exec(text)?.[1]))
      })
    })
    asked.end()
  })
}

for (const way of ['quic', 'grpc'] as const) {
  const { limit, code, message } = LIMITS[way]
  test(`by ${way}: one session too many is refused with its code, logged once and counted`, async (t) => {
    const { relay, lines } = await startFull(t, way)
    const first = open(t, relay, way)
    await first.ready
    for (let round = 0; round < 2; round++) await assert.rejects(open(t, relay, way).ready, refusedWith(code, message))

    assert.equal(lines.length, 1)
    const line = JSON.parse(lines[0] ?? '') as Record<string, unknown>
    assert.deepEqual([line['limit'], line['value'], line['address']], [`streams.${limit}`, 1, '127.0.0.1'])
    assert.ok((await refusals(relay, limit)) >= 2)
    // The one that has its place keeps it.
    await call(first.session, { case: 'resume', value: create(ResumeRequestSchema, {}) })
    assert.equal(first.listener.losses.length, 0)

    // There is room again after it has left.
    await first.session.close()
    await open(t, relay, way).ready
  })
}

test('an agent that finds QUIC full uses gRPC, if it may', async (t) => {
  const { relay } = await startFull(t, 'quic')
  await open(t, relay, 'quic').ready
  const second = open(t, relay, 'quic', relay.grpcPort)
  await second.ready
  assert.deepEqual(
    second.listener.infos.map(({ way }) => way),
    ['grpc'],
  )
})
