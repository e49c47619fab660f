/** What one agent behind a proxy does to a connection must not cost the others on it their streams. */
import assert from 'node:assert/strict'
import { mock, test, type TestContext } from 'node:test'
import type { StaticError } from '@static/protocol'
import { QuicUpstream } from '../../src/proxy/quic-upstream.ts'
import type { UpstreamStream } from '../../src/proxy/upstream.ts'
import {
  type QuicBench,
  type QuicBenchOptions,
  quicCertificates,
  startQuicBench,
  Watch,
} from '../support/quic-bench.ts'

/** How often a proxy looks after its connections, and how long it waits for a sign of life. */
const TEND_MS = 2000
const PROBE_MS = 4000
/** The library's limit of streams per connection. */
const MOST_STREAMS = 10_000
/** The first byte of a stream that the relay resets: it is to read more at once than may wait for it. */
const RESET = 0xff
const TOO_MUCH = Buffer.alloc(16 * 1024 * 1024)

/** Resets streams that want it, and is otherwise silent. */
const silent = {
  onChunk: (transport, stream, [first]) => {
    if (first === RESET) transport.write([stream], TOO_MUCH)
  },
} satisfies QuicBenchOptions

/** Resets streams that want it, and sends back what the others send. */
const alive = {
  onChunk: (transport, stream, chunk) => {
    transport.write([stream], chunk[0] === RESET ? TOO_MUCH : chunk)
  },
} satisfies QuicBenchOptions

interface Lane {
  readonly bench: QuicBench
  readonly upstream: QuicUpstream
}

/** The library has timers of its own: opening all streams sends nothing and may take long on a busy machine. */
const IDLE = { idleTimeoutMs: 300_000 }

/** A proxy's upstream with a single connection. Its timers run when the test lets them. */
async function startLane(t: TestContext, options: QuicBenchOptions): Promise<Lane> {
  const { proxies } = await quicCertificates()
  const bench = await startQuicBench(t, { ...IDLE, ...options })
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.after(() => mock.timers.reset())
  const target = bench.target({ ...IDLE, clientCertificate: proxies.issue() })
  const upstream = new QuicUpstream([target], 1, Date.now, () => 0)
  t.after(() => upstream.close())
  await upstream.dial()
  return { bench, upstream }
}

interface Opened {
  readonly stream: UpstreamStream
  readonly closed: Promise<StaticError | undefined>
  /** Waits for more to arrive; false if the stream is closed instead. */
  heard(): Promise<boolean>
}

async function open(upstream: QuicUpstream): Promise<Opened> {
  const watch = new Watch()
  const { promise: closed, resolve } = Promise.withResolvers<StaticError | undefined>()
  let over = false
  let bytes = 0
  const stream = await upstream.open({
    data: (chunk) => {
      bytes += chunk.length
      watch.changed()
    },
    closed: (reason) => {
      over = true
      watch.changed()
      resolve(reason)
    },
  })
  const heard = async (): Promise<boolean> => {
    const before = bytes
    await watch.until(() => over || bytes > before)
    return !over
  }
  return { stream, closed, heard }
}

/** Whether a stream is open in both directions. */
async function works(opened: Opened): Promise<boolean> {
  opened.stream.write(Buffer.of(1))
  return opened.heard()
}

void test('a stream that the relay resets takes no other stream of its connection with it', async (t) => {
  const { bench, upstream } = await startLane(t, alive)
  const quiet = await open(upstream)
  assert.ok(await works(quiet))
  const greedy = await open(upstream)
  greedy.stream.write(Buffer.of(RESET))
  assert.match((await greedy.closed)?.message ?? '', /was cut off/)
  await bench.watch.until(() => /too much is waiting/.test(bench.log.join()))
  // The proxy asks for a sign of life and ends that stream when it has one.
  await Promise.race([bench.watch.until(() => bench.streams[2]?.closed === true), quiet.closed])
  mock.timers.tick(PROBE_MS)
  assert.ok(await works(quiet))
  assert.ok(await works(await open(upstream)))
})

void test('a relay that has no room for the question whether it is alive shows that it is', async (t) => {
  let asked = 0
  const { upstream } = await startLane(t, { ...alive, onOpen: () => ++asked <= 2 })
  const quiet = await open(upstream)
  assert.ok(await works(quiet))
  const greedy = await open(upstream)
  greedy.stream.write(Buffer.of(RESET))
  assert.ok(await greedy.closed)
  const refused = await open(upstream)
  refused.stream.write(Buffer.of(1))
  assert.equal(await refused.closed, undefined, 'refused after the question')
  mock.timers.tick(PROBE_MS)
  assert.ok(await works(quiet))
})

void test('a stream that breaks on a silent connection gets the connection replaced', async (t) => {
  const { bench, upstream } = await startLane(t, silent)
  const quiet = await open(upstream)
  quiet.stream.write(Buffer.of(1))
  const greedy = await open(upstream)
  greedy.stream.write(Buffer.of(RESET))
  assert.ok(await greedy.closed)
  mock.timers.tick(PROBE_MS)
  assert.ok(await quiet.closed)
  const next = await open(upstream)
  next.stream.write(Buffer.of(7))
  await bench.watch.until(() => bench.streams.some(({ chunks }) => chunks[0]?.[0] === 7))
})

void test('a connection without a free stream refuses one more and keeps those that it has', async (t) => {
  const { upstream } = await startLane(t, alive)
  const quiet = await open(upstream)
  for (let count = 1; count < MOST_STREAMS; count++) await upstream.open({ data: () => {}, closed: () => {} })
  await assert.rejects(open(upstream), { code: 'unavailable', message: /no free stream to its relay/ })
  assert.ok(await works(quiet))
  // The proxy finds no stream for its regular check either.
  mock.timers.tick(TEND_MS)
  mock.timers.tick(PROBE_MS)
  assert.ok(await works(quiet))
})
