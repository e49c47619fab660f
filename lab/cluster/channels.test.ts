/**
 * A relay node with 100,000 channels over PostgreSQL: the node remembers only as many as fit into its cache. Prints how
 * much longer a lone append to any of them takes than to one that it remembers. A part of `npm run proof -- cluster`;
 * `STATIC_CHANNELS` sets another number.
 */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { startCluster } from '@static/testkit/postgres/cluster'
import { randomBelow, SEED } from '@static/testkit/random'
import { openPostgresStore, type Retention, type Store } from '@static/testkit/store/relay-engines'

const CHANNELS = Number(process.env['STATIC_CHANNELS'] ?? 100_000)
const AT_ONCE = 32
const PAIRS = 400
/** Room for about one channel in fifteen. */
const CACHED_BYTES = CHANNELS * 320
/** Of the heap, for everything else. */
const OTHER_BYTES = 32 * 1024 * 1024
/** How much longer an append should take among many channels. */
const TARGET = 1.3
const RETENTION: Retention = {
  entryMs: 7 * 86_400_000,
  messageIdMs: 7 * 86_400_000,
  channelBytes: 2 ** 40,
  channelEntries: 2 ** 40,
  accountBytes: 2 ** 50,
  freeControl: 120,
  freeCommitBytes: 2 ** 40,
  freeChannelCommitBytes: 2 ** 40,
  memberAddsPerHour: 60,
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes on the heap that are in use. */
function usedBytes(): number {
  collect()
  return process.memoryUsage().heapUsed
}

const idOf = (at: number): string => createHash('sha256').update(`channel ${at}`).digest('hex').slice(0, 32)
const actorOf = (channel: string): { agent: string; account: { id: string; mode: 'live' } } => ({
  agent: channel.repeat(2),
  account: { id: channel, mode: 'live' },
})

async function create(store: Store, channel: string): Promise<void> {
  const request = { actor: actorOf(channel), channel, name: `a/b/${channel}`, welcome: randomBytes(64), guestLimit: 0 }
  const result = await store.run('create', { ...request, maxChannels: 10, now: Date.now() })
  assert.ok(!('refused' in result))
}

/** Appends one message. Returns how long it took, in milliseconds. */
async function append(store: Store, channel: string, counter: number): Promise<number> {
  const message = { slot: 0, messageId: randomBytes(16), counter, control: false, ciphertext: randomBytes(1024) }
  const started = performance.now()
  const result = await store.run('append', {
    actor: actorOf(channel),
    channel,
    ...message,
    paid: true,
    now: Date.now(),
  })
  assert.ok('index' in result, JSON.stringify(result))
  return performance.now() - started
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0

test(`${CHANNELS} channels`, { timeout: 7_200_000 }, async (t) => {
  const postgres = await startCluster(false)
  t.after(() => postgres.close())
  const directory = mkdtempSync(join(tmpdir(), 'static-channels-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  const options = { url: postgres.url, keyFile: join(directory, 'relay.key'), retention: RETENTION }
  const store = await openPostgresStore({ ...options, cachedBytes: CACHED_BYTES }, () => {})
  t.after(() => store.close())

  const before = usedBytes()
  for (let at = 0; at < CHANNELS; at += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, CHANNELS - at) }, (_, more) => idOf(at + more))
    await Promise.all(some.map((channel) => create(store, channel)))
  }
  const grown = usedBytes() - before
  const { channels, bytes } = store.cached
  assert.ok(bytes <= CACHED_BYTES)
  assert.ok(grown < CACHED_BYTES + OTHER_BYTES, `the heap has grown by ${grown} bytes`)

  // In turns, so that both see the same machine.
  const below = randomBelow(SEED)
  const [one, many]: [number[], number[]] = [[], []]
  const counters = new Map<number, number>()
  const next = (at: number): number => {
    counters.set(at, (counters.get(at) ?? 0) + 1)
    return counters.get(at) ?? 0
  }
  for (let pair = 0; pair < PAIRS; pair++) {
    one.push(await append(store, idOf(0), next(0)))
    const at = 1 + below(CHANNELS - 1)
    many.push(await append(store, idOf(at), next(at)))
  }
  const ratio = median(many) / median(one)
  const mib = (count: number): string => (count / 1024 / 1024).toFixed(1)
  const [first, any] = [median(one), median(many)].map((time) => time.toFixed(2))
  t.diagnostic(
    `an append to one channel takes ${first} ms, to any ${any} ms: ${ratio.toFixed(2)} times (target ${TARGET})`,
  )
  t.diagnostic(
    `${channels} channels in memory, ${mib(bytes)} of ${mib(CACHED_BYTES)} MiB; the heap has grown by ${mib(grown)} MiB`,
  )
})
