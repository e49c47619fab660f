/** Very many: sessions that do nothing, and sessions that one address opens faster than it may. */
import { connectQuic } from '@static/quic'
import assert from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { cutEnvelope, REVISION } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema } from '@static/protocol/relay'
import { Agent, makeKey, type Wire } from '@static/testkit/agent'
import { connectGrpc } from '@static/testkit/agent/grpc-client'
import { IS_WHOLE } from '@static/testkit/whole'
import { BOTH, Scene } from './scene.ts'

/** More with STATIC_LONG=1. */
const SESSIONS = process.env['STATIC_LONG'] === '1' ? 1000 : IS_WHOLE ? 400 : 200
const PER_CONNECTION = 100
const KIB = 1024

/** Opens sessions over few connections; the wires take turns. */
async function crowd(scene: Scene, wires: readonly Wire[]): Promise<Agent[]> {
  const agents: Agent[] = []
  while (agents.length < SESSIONS) {
    const batch = Array.from({ length: PER_CONNECTION }, (_, at) => wires[(agents.length + at) % wires.length] as Wire)
    agents.push(...(await Promise.all(batch.map((wire) => Agent.connect(wire, { jwt: scene.home.api.token('acme') })))))
  }
  return agents
}

/** Connections that carry the sessions of many; they are closed with the test. */
const wiresOf = {
  grpc: async (t: TestContext, { home, relay }: Scene): Promise<Wire[]> => {
    const target = { host: '127.0.0.1', port: relay.ports.grpc, ca: home.ca }
    const clients = await Promise.all(Array.from({ length: SESSIONS / PER_CONNECTION }, () => connectGrpc(target)))
    t.after(() => Promise.all(clients.map((client) => client.close())))
    return clients.map((client) => ({
      form: 'protobuf',
      open: (handlers) => Promise.resolve(client.openSession(handlers)),
    }))
  },
  // As a stand-alone proxy does: a stream for each agent, which begins with a hello.
  quic: async (t: TestContext, { home, relay }: Scene): Promise<Wire[]> => {
    const { ca, clientCertificate } = home
    const place = { host: '127.0.0.1', port: relay.ports.quic, serverName: 'localhost', ca }
    const target = { ...place, clientCertificate, connectTimeoutMs: 60_000 }
    const connections = await Promise.all([connectQuic(target), connectQuic(target)])
    t.after(() => Promise.all(connections.map((connection) => connection.close())))
    const address = Uint8Array.of(192, 0, 2, 1)
    const hello = create(ClientMessageSchema, {
      requestId: 0xffff_ffff_ffff_ffffn,
      body: { case: 'proxyHello', value: { revision: REVISION, agentAddress: address } },
    })
    return connections.map((connection) => ({
      form: 'cbor',
      open: (handlers) => {
        const stream = connection.openStream(handlers)
        stream.write(cutEnvelope(encodeEnvelope('cbor', ClientMessageSchema, hello)))
        return Promise.resolve(stream)
      },
    }))
  },
}

describe('a crowd', () => {
  for (const by of BOTH) {
    test(`${SESSIONS} idle sessions over ${by === 'quic' ? 'QUIC, through a proxy' : 'gRPC'}`, async (t) => {
      const session = { openMs: 60_000, pongMs: 60_000 }
      const scene = await Scene.open({ streams: { openingsBurst: 10_000 }, session })
      t.after(() => scene.close())
      await scene.pair.exchanges(100)
      const before = await scene.relay.rss('collect')
      const agents = await crowd(scene, await wiresOf[by](t, scene))
      await scene.until('static_relay_sessions', (sessions) => sessions === SESSIONS + 2)
      const each = ((await scene.relay.rss('collect')) - before) / SESSIONS
      t.diagnostic(`${(each / KIB).toFixed(1)} KiB each`)
      assert.ok(each < 128 * KIB, `${each} bytes each`)
      await scene.pair.exchanges(20)
      for (const agent of agents) agent.close()
      await Promise.all(agents.map(({ ended }) => ended))
      await scene.until('static_relay_sessions', (sessions) => sessions === 2)
    })
  }
})

describe('a flood from one address', () => {
  const UNOPENED = 20
  const BURST = 60
  let scene: Scene
  before(async () => {
    const streams = { unauthenticatedPerAddress: UNOPENED, openingsPerSecond: 1, openingsBurst: BURST, perAddress: 40 }
    scene = await Scene.open({ streams, session: { openMs: 60_000 } })
  })
  after(() => scene.close())

  test('connections beyond the limits are refused, and another address is served', async () => {
    const codes: string[] = []
    for (let count = 0; count < UNOPENED; count++) await scene.dial('grpc')
    for (let count = 0; count < BURST; count++) {
      const agent = await scene.dial('grpc')
      const { error } = await agent.next('sessionClosing')
      await agent.ended
      assert.ok((error?.retryAfterMs ?? 0) >= 1000)
      codes.push(error?.code ?? '')
    }
    assert.deepEqual([...new Set(codes)], ['rate_limited'])
    // Nobody from there gets in any more: the burst is used up, also for those who would show who they are.
    const late = await scene.dial('grpc')
    const refused: unknown = await late.open(scene.home.api.token('acme')).catch((error: unknown) => error)
    assert.ok(refused instanceof Error)

    const other = await scene.dial('grpc', '127.0.0.2', makeKey())
    await other.open(scene.home.api.token('acme'))
    const channel = await other.createChannel('acme/test/elsewhere')
    assert.equal((await other.send(channel, 0n, 1n)).index, 1n)
    await scene.pair.exchanges(10)
  })
})
