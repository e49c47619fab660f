/** How a relay and a proxy shape what agents get. What the network sees of it is measured by `npm run proof -- traffic`. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { CELL_BYTES, cutEnvelope, makeCell, UNIT_CELLS, type TrafficProfileName } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema } from '@static/protocol/relay'
import { create } from '@bufbuild/protobuf'
import { Pacing } from '../../src/session/pacing.ts'
import { ProxySessions } from '../../src/proxy/sessions.ts'
import { settingsFrom } from '../../src/settings.ts'
import { Shaping } from '../../src/session/shaping.ts'
import { Agent, makeKey, Refused } from '@static/testkit/agent'
import { ask } from '../support/grpc-http.ts'
import { startTestRelay, type TestRelay } from '@static/testkit/relay'
import { code, freshName } from './stage.ts'

const UNIT_BYTES = UNIT_CELLS * CELL_BYTES
const COVER_ASK = Buffer.concat([makeCell('cover'), makeCell('coverAsk')])

async function connect(
  relay: TestRelay,
  profile: TrafficProfileName,
  cellsPerSecond = 0,
  account = 'owner',
): Promise<Agent> {
  const jwt = relay.api.token(account)
  return Agent.connect(relay.wire(), { key: makeKey(), jwt, traffic: { profile, cellsPerSecond } })
}

/** A member that gets what another one sends. */
async function pair(relay: TestRelay, reader: Agent): Promise<{ writer: Agent; channel: Uint8Array }> {
  const writer = await Agent.connect(relay.wire(), { jwt: relay.api.token('owner') })
  const channel = await writer.createChannel(freshName())
  await reader.request('resume', {})
  await writer.commit(channel, 0n, { adds: [reader.id] })
  await reader.next('deliverWelcome')
  await reader.request('resume', { channelIds: [channel] })
  return { writer, channel }
}

/** Gets cover for cover, several times: the relay's own comes every 10 s and would take too long for a test. */
async function askForCover(agent: Agent): Promise<void> {
  for (let count = 0; count < 8; count++) {
    const before = agent.receivedBytes
    agent.write(COVER_ASK)
    await agent.until(() => agent.receivedBytes >= before + UNIT_BYTES)
  }
}

for (const way of ['quic', 'grpc', 'proxy'] as const) {
  void test(`over ${way}, cover is answered with a unit of cover, costs nothing and reaches no member`, async (t) => {
    const relay = await startTestRelay(way, { settings: { session: { pingMs: 60_000 } } })
    t.after(() => relay.close())
    const agent = await connect(relay, 'standard')
    await askForCover(agent)
    assert.deepEqual(agent.pushes, [])
    assert.equal(relay.api.asked, 0)
    agent.close()
  })

  void test(`over ${way}, everything in standard arrives in whole units`, async (t) => {
    // No pings of its own: an odd cell would never become a pair.
    const relay = await startTestRelay(way, { settings: { session: { pingMs: 60_000 } } })
    t.after(() => relay.close())
    const agent = await connect(relay, 'standard')
    // The opening is the same for everybody.
    const opening = agent.receivedBytes
    const { writer, channel } = await pair(relay, agent)
    for (let counter = 1n; counter <= 5n; counter++) {
      await writer.send(channel, 1n, counter)
      await agent.next('deliverMessage')
      agent.write(makeCell('ping', randomBytes(8)))
      await agent.until(() => agent.lone.filter((type) => type === 'pong').length === Number(counter))
      await agent.until(() => (agent.receivedBytes - opening) % UNIT_BYTES === 0)
    }
    for (const one of [agent, writer]) one.close()
  })

  void test(`over ${way}, cells arrive on a clock in strict, and a long message among them`, async (t) => {
    const relay = await startTestRelay(way)
    t.after(() => relay.close())
    const agent = await connect(relay, 'strict', 64)
    const quiet = agent.receivedBytes
    await agent.until(() => agent.receivedBytes >= quiet + 16 * CELL_BYTES)
    assert.deepEqual(agent.pushes, [])
    const { writer, channel } = await pair(relay, agent)
    const ciphertext = randomBytes(50_000)
    await writer.send(channel, 1n, 1n, ciphertext)
    // A sign of life is not held up by it.
    agent.write(makeCell('ping', randomBytes(8)))
    await agent.until(() => agent.lone.includes('pong'))
    assert.deepEqual(agent.pushes, [])
    const delivered = await agent.next('deliverMessage')
    assert.deepEqual(Buffer.from(delivered.ciphertext), ciphertext)
    for (const one of [agent, writer]) one.close()
  })
}

for (const way of ['grpc', 'proxy'] as const) {
  void test(`over ${way}, a stalled connection with a clock recovers: marks and pings are answered late`, async (t) => {
    const relay = await startTestRelay(way, { settings: { session: { pingMs: 600, pongMs: 60_000 } } })
    t.after(() => relay.close())
    const agent = await connect(relay, 'strict', 64)
    const { writer, channel } = await pair(relay, agent)
    agent.deaf = true
    const pings = (): number => agent.lone.filter((type) => type === 'ping').length
    const before = pings()
    await writer.send(channel, 1n, 1n, randomBytes(20_000))
    // One marks a place in the message, another one asks for a sign of life.
    await agent.until(() => pings() >= before + 2)
    agent.hear()
    await agent.request('resume', {})
    for (const one of [agent, writer]) one.close()
  })
}

void test('an unfinished envelope is not kept alive by cover that arrives in halves', async (t) => {
  const relay = await startTestRelay('quic', { settings: { session: { stallMs: 300 } } })
  t.after(() => relay.close())
  const agent = await connect(relay, 'off')
  agent.write(cutEnvelope(randomBytes(3000)).subarray(0, CELL_BYTES))
  const halves = setInterval(() => {
    // Half a cell of cover and the next half: something is always held.
    agent.write(new Uint8Array(CELL_BYTES / 2))
  }, 50)
  t.after(() => clearInterval(halves))
  await agent.ended
})

void test('unfinished envelopes are bounded at a proxy too: in time, and across all agents', async () => {
  const ended: number[] = []
  const transport = { write: () => {}, pace: () => {}, end: (id: number) => void ended.push(id), stop: async () => {} }
  const stream = { write: () => {}, end: () => {}, retire: () => {}, bufferedBytes: 0 }
  const upstream = { open: () => Promise.resolve(stream) }
  const settings = settingsFrom({ session: { stallMs: 100 }, streams: { joiningBytes: 10_000 } })
  const agents = new ProxySessions(
    upstream,
    () => ({ grpc: 1, files: 0, filesUrl: '' }),
    () => {},
    settings,
  ).streams(() => transport)
  const peer = { transport: 'grpc', form: 'protobuf', address: '127.0.0.1', proxy: false } as const
  const ids = [agents.opened(peer), agents.opened(peer), agents.opened(peer)] as [number, number, number]
  await delay(1)
  // Each of them holds 4 KiB.
  const part = cutEnvelope(randomBytes(3000)).subarray(0, CELL_BYTES)
  for (const id of ids) agents.received(id, part)
  assert.deepEqual(ended.splice(0), [ids[0]])
  while (ended.length === 0) {
    await delay(10)
    // Who goes on may take as long as it takes; who sends cover alone may not.
    agents.received(ids[1], makeCell('cover'))
  }
  assert.deepEqual(ended, [ids[1]])
})

void test('a refused message does not make cover late: only successful responses are measured', async (t) => {
  let passed = 0
  const settings = { session: { pingMs: 3_600_000 } }
  const relay = await startTestRelay('grpc', { settings, monotonic: () => performance.now() + passed })
  t.after(() => relay.close())
  const agent = await connect(relay, 'standard')
  const { channel, writer } = await pair(relay, agent)
  await assert.rejects(agent.send(channel, 99n, 1n), Refused)
  passed = 20_000
  await agent.send(channel, 1n, 1n)
  await askForCover(agent)
  for (const one of [agent, writer]) one.close()
})

void test('cells waiting for the clock keep nothing else in memory', async () => {
  const pacing = new Pacing()
  const left = Promise.withResolvers<Uint8Array>()
  pacing.start(1, { type: 'steady', cellsPerSecond: 64 }, left.resolve)
  pacing.push(1, new Uint8Array(64 * CELL_BYTES).subarray(0, CELL_BYTES), true)
  assert.equal((await left.promise).buffer.byteLength, CELL_BYTES)
  pacing.drop(1)
})

void test('a sender on a slow clock is not mistaken for one that leaves an envelope unfinished', async (t) => {
  const relay = await startTestRelay('grpc', { settings: { session: { stallMs: 1000 } } })
  t.after(() => relay.close())
  const agent = await connect(relay, 'strict', 64)
  const { writer, channel } = await pair(relay, await connect(relay, 'off'))
  const requestId = 99n
  const value = {
    channelId: channel,
    slot: 1n,
    counter: 1n,
    ciphertext: randomBytes(40_000),
    messageId: randomBytes(16),
  }
  const message = create(ClientMessageSchema, { requestId, body: { case: 'sendMessage', value } })
  const cells = cutEnvelope(encodeEnvelope('protobuf', ClientMessageSchema, message))
  for (let at = 0; at < cells.length; at += CELL_BYTES) {
    agent.write(cells.subarray(at, at + CELL_BYTES))
    await delay(40)
  }
  await agent.until(() => agent.pushes.some((push) => push.requestId === requestId))
  for (const one of [agent, writer]) one.close()
})

void test('an operator can refuse profiles below the floor or above the ceiling', async (t) => {
  const relay = await startTestRelay('grpc', { traffic: { floor: 'standard', ceiling: 'private' } })
  t.after(() => relay.close())
  for (const profile of ['off', 'strict'] as const) await assert.rejects(connect(relay, profile), code('not_allowed'))
  for (const profile of ['standard', 'private'] as const) (await connect(relay, profile)).close()
})

void test('clocks are granted up to a limit, a quarter to guests, who give way to accounts with fewer, and are returned', async (t) => {
  const relay = await startTestRelay('grpc', { settings: { streams: { clockedCells: 100 } } })
  t.after(() => relay.close())
  const guest = (): Promise<Agent> =>
    Agent.connect(relay.wire(), { traffic: { profile: 'strict', cellsPerSecond: 20 } })
  const first = await guest()
  await assert.rejects(guest(), code('unavailable'))
  const own = await connect(relay, 'strict', 64)
  await connect(relay, 'private')
  await assert.rejects(connect(relay, 'private'), code('unavailable'))
  await connect(relay, 'private', 0, 'another')
  await first.ended
  await assert.rejects(connect(relay, 'private'), code('unavailable'))
  ;(await connect(relay, 'standard')).close()
  own.close()
  await own.ended
  const again = await connect(relay, 'strict', 64)
  again.close()
})

void test('a relay with a floor above the ceiling does not start', async () => {
  const traffic = { floor: 'strict', ceiling: 'private' } as const
  await assert.rejects(startTestRelay('grpc', { traffic }), { code: 'invalid_request', message: /above the highest/ })
})

void test('the metrics show real cells and cover, waiting times, and the sessions on each level', async (t) => {
  const relay = await startTestRelay('quic')
  t.after(() => relay.close())
  const agent = await connect(relay, 'strict', 32)
  const shown = async (): Promise<string> => {
    const bench = { ca: relay.ca, transport: { port: relay.grpcPort } }
    return (await ask(bench, '1.1', 'GET', '/metrics')).body
  }
  // The thread of the endpoint tells every second.
  let text = await shown()
  const [session, cover] = [
    /static_relay_traffic_sessions\{cells_per_second="32"\} 1/,
    /static_relay_cells_total\{kind="cover",clock="yes"\} [1-9]/,
  ]
  while (!session.test(text) || !cover.test(text)) {
    await delay(100)
    text = await shown()
  }
  assert.match(text, /static_relay_cells_total\{kind="real",clock="yes"\} [1-9]/)
  assert.match(text, /static_relay_cell_wait_seconds_total (?!0\n)\d/)
  assert.match(text, /static_relay_cover_shed_total 0/)
  agent.close()
})

void test('cover is dropped first when real cells wait', async () => {
  const writes: number[] = []
  const transport = {
    write: (_: readonly number[], cells: Uint8Array): void => void writes.push(cells.length),
    pace: () => {},
    end: () => {},
    stop: () => Promise.resolve(),
  }
  let busy = true
  const shaping = new Shaping(() => busy)
  shaping.begin(1, transport, 'standard', 0)
  shaping.asked(1)
  while (shaping.counts.shed === 0) await delay(1)
  assert.deepEqual(writes, [])
  busy = false
  shaping.asked(1)
  while (writes.length === 0) await delay(1)
  assert.deepEqual(writes, [UNIT_BYTES])
  shaping.end(1)
})
