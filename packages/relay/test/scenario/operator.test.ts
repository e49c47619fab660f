/** What an operator sees of a relay: figures, and a log that neither repeats itself nor names clients unasked. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { StaticError } from '@static/protocol'
import { Agent, type Wire } from '@static/testkit/agent'
import { connectGrpc } from '@static/testkit/agent/grpc-client'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'
import { certificates } from '@static/testkit/certificates'
import { FakeApi } from '@static/testkit/relay/api'
import { makeClient } from '@static/testkit/server/client'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { type OpenStore, type RelayOptions, type RunningRelay, startProxy, startRelay } from '../../src/index.ts'
import { ExcessLog } from '../../src/excess-log.ts'
import { temporaryFile } from '../store/channel-fixture.ts'

interface Scene {
  readonly relay: RunningRelay
  readonly api: FakeApi
  readonly lines: Record<string, unknown>[]
  readonly wire: (by: 'quic' | 'grpc') => Wire
  readonly metrics: () => Promise<string>
}

async function scene(t: TestContext, options: Partial<RelayOptions> & Pick<RelayOptions, 'database'>): Promise<Scene> {
  const { authority, named } = await certificates()
  const ca = authority.cert
  const api = new FakeApi(Date.now)
  const lines: Record<string, unknown>[] = []
  const relay = await startRelay({
    name: 'localhost',
    host: 'localhost',
    grpcPort: 0,
    quicPort: 0,
    quicEndpoints: 1,
    certificate: named,
    api,
    log: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>), pretty: false, level: 'info' },
    ...options,
  })
  t.after(() => relay.close())
  const client = makeClient(`https://localhost:${relay.grpcPort}`, ca)
  t.after(() => client.close())
  return {
    relay,
    api,
    lines,
    wire: (by) =>
      by === 'quic' ? quicWire({ port: relay.quicPorts[0] ?? 0, ca }) : grpcWire({ port: relay.grpcPort, ca }),
    metrics: async () => (await client.call({ path: '/metrics' })).text,
  }
}

const memory: OpenStore = (options, listener) => openMemoryStore(options, listener)

test('the metrics have latencies, sessions, the store, the disk, leases and the build', async (t) => {
  const { api, wire, metrics } = await scene(t, { database: temporaryFile(t) })
  const agents = [await Agent.connect(wire('quic'), { jwt: api.token('acme') })]
  agents.push(await Agent.connect(wire('grpc'), { jwt: api.token('acme') }))
  t.after(() => agents.forEach((agent) => agent.close()))
  await agents[0]?.createChannel('acme/test/figures')
  let text = ''
  const figure = (name: string): number =>
    Number(new RegExp(`^${name.replaceAll(/[{}]/g, '\\$&')} (.+)$`, 'm').exec(text)?.[1])
  // The store counts with each sweep, every second.
  for (let reads = 0; reads < 10_000 && figure('static_relay_channels') !== 1; reads++) text = await metrics()
  assert.equal(figure('static_relay_channels'), 1)
  assert.ok(figure('static_relay_log_bytes') >= 0)
  assert.ok(figure('static_relay_database_bytes') > 4096)
  assert.ok(figure('static_relay_disk_free_bytes') > 0)
  assert.ok(figure('static_relay_oldest_unread_seconds') >= 0)
  assert.equal(figure('static_relay_sessions{transport="quic"}'), 1)
  assert.equal(figure('static_relay_sessions{transport="grpc"}'), 1)
  assert.equal(figure('static_relay_request_seconds_count{operation="createChannel"}'), 1)
  assert.ok(figure('static_relay_commit_seconds_count') > 0)
  assert.ok(figure('static_relay_commit_seconds_sum') > 0)
  assert.ok(figure('static_relay_leases') >= 0)
  assert.match(text, /^static_relay_build_info\{version="[\d.]+",node="v\d+[\d.]+"\} 1$/m)
  for (const [, name, type] of text.matchAll(/^# TYPE (static_relay_\w+) (\w+)$/gm)) {
    assert.equal(name?.endsWith('_total'), type === 'counter', `${name} is a ${type}`)
  }
})

test('clients are in the log only if the operator wants it; starting and stopping always are', async (t) => {
  for (const logClients of [false, true]) {
    const { api, wire, lines, relay } = await scene(t, { database: memory, logClients })
    const agent = await Agent.connect(wire('grpc'), { jwt: api.token('acme') })
    agent.close()
    await relay.close()
    const texts = lines.map(({ msg }) => msg)
    const opened = lines.filter(({ msg }) => msg === 'session opened')
    assert.deepEqual(
      texts.filter((text) => text !== 'session opened'),
      ['relay ready', 'relay stopping', 'relay stopped'],
    )
    assert.equal(opened.length, logClients ? 1 : 0)
    if (!logClients) assert.ok(!JSON.stringify(lines).includes(Buffer.from(agent.id).toString('hex')))
    else {
      const { agent: id, account, address, transport } = opened[0] ?? {}
      assert.deepEqual([id, account, transport], [Buffer.from(agent.id).toString('hex'), 'acme', 'grpc'])
      assert.match(String(address), /^(127\.0\.0\.1|::1)$/)
    }
  }
})

test('a store that fails is one line in the log, however many requests fail', async (t) => {
  const failing: OpenStore = async (options, listener) => ({
    ...(await openMemoryStore(options, listener)),
    run: () => Promise.reject(StaticError.of('unavailable', 'no space')),
  })
  const { api, wire, lines } = await scene(t, { database: failing })
  for (const jwt of [1, 2, 3].map(() => api.token('acme'))) {
    await assert.rejects(Agent.connect(wire('grpc'), { jwt }))
  }
  assert.deepEqual(
    lines.filter(({ msg }) => msg !== 'relay ready').map(({ msg, failures }) => [msg, failures]),
    [['the store failed; retrying', 1]],
  )
})

test('dropped connections are one line a minute for each reason', () => {
  const lines: object[] = []
  let now = 0
  const log = new ExcessLog({ warn: (fields: object) => void lines.push(fields) }, () => now)
  for (let dropped = 0; dropped < 50; dropped++) log.cut('192.0.2.1', 'resets')
  log.cut('192.0.2.2', 'pipelining')
  now = 60_001
  log.cut('192.0.2.3', 'resets')
  assert.deepEqual(lines, [
    { address: '192.0.2.1', reason: 'resets', dropped: 1 },
    { address: '192.0.2.2', reason: 'pipelining', dropped: 1 },
    { address: '192.0.2.3', reason: 'resets', dropped: 50 },
  ])
})

test('malformed streams at a proxy are one line a minute in its log, however many there are', async (t) => {
  const { authority, named, client } = await certificates()
  const ca = authority.cert
  const { relay } = await scene(t, { database: memory, proxyCa: ca })
  const lines: Record<string, unknown>[] = []
  const proxy = await startProxy({
    name: 'localhost',
    host: '127.0.0.1',
    grpcPort: 0,
    certificate: named,
    relay: { addresses: [{ host: 'localhost', port: relay.quicPorts[0] ?? 0 }], ca, clientCertificate: client },
    log: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>), pretty: false, level: 'warn' },
  })
  t.after(() => proxy.close())
  const agent = await connectGrpc({ host: '127.0.0.1', port: proxy.grpcPort, ca })
  t.after(() => agent.close())
  for (let round = 0; round < 20; round++) {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    agent.openSession({ data: () => {}, closed: resolve }).write(new Uint8Array(1024).fill(0xff))
    await promise
  }
  assert.deepEqual(
    lines.map(({ msg, failures }) => [msg, failures]),
    [['forwarding a session or call failed', 1]],
  )
})
