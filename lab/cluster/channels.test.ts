/**
 * A relay node with 100,000 channels in use over PostgreSQL, each of an account of its own: the node remembers them all
 * in its cache. Prints how much longer a lone append to any of them takes than repeated ones to the same channel, and
 * how long the first one takes when the node has just started and remembers none. A part of `npm run proof -- cluster`;
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
const AT_ONCE = 256
const PAIRS = 1000
/** The limit of a node's cache for channels, and of the rest of its heap, with the sizes of 100,000 accounts. */
const CACHED_BYTES = 128 * 1_048_576
const OTHER_BYTES = 64 * 1_048_576
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

/** Bytes in use, on the heap and beside it. */
function usedBytes(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
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
    paid: actorOf(channel).account,
    now: Date.now(),
  })
  assert.ok('index' in result, JSON.stringify(result))
  return performance.now() - started
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0

/** Does something for every channel, many at once. */
async function forAll(work: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < CHANNELS) await work(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

/** Messages to channels, each with its counter. */
class Messages {
  readonly #counters = new Map<number, number>()

  /** Appends one message. Returns how long it took, in milliseconds. */
  send(store: Store, at: number): Promise<number> {
    const counter = (this.#counters.get(at) ?? 0) + 1
    this.#counters.set(at, counter)
    return append(store, idOf(at), counter)
  }

  /** How long lone messages take: to one channel, and to any, in turns, so that both see the same machine. */
  async compare(store: Store, any: () => number): Promise<{ readonly one: number; readonly any: number }> {
    const [one, others]: [number[], number[]] = [[], []]
    for (let pair = 0; pair < PAIRS; pair++) {
      one.push(await this.send(store, 0))
      others.push(await this.send(store, any()))
    }
    return { one: median(one), any: median(others) }
  }
}

test(`${CHANNELS} channels`, { timeout: 7_200_000 }, async (t) => {
  const postgres = await startCluster(false)
  t.after(() => postgres.close())
  const directory = mkdtempSync(join(tmpdir(), 'static-channels-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  const options = { url: postgres.url, keyFile: join(directory, 'relay.key'), retention: RETENTION }
  const store = await openPostgresStore(options, () => {})
  t.after(() => store.close())
  const say = (what: string, { one, any }: { readonly one: number; readonly any: number }): void => {
    const ratio = (any / one).toFixed(2)
    t.diagnostic(`an append to one channel takes ${one.toFixed(2)} ms, ${what} ${any.toFixed(2)} ms: ${ratio} times`)
  }

  const before = usedBytes()
  const started = performance.now()
  await forAll((at) => create(store, idOf(at)))
  t.diagnostic(`creating them took ${((performance.now() - started) / 1000).toFixed(0)} s`)
  const messages = new Messages()
  await forAll((at) => messages.send(store, at))
  const grown = usedBytes() - before
  const { channels, bytes } = store.cached
  assert.ok(bytes <= CACHED_BYTES, `${bytes} bytes`)
  assert.ok(grown < CACHED_BYTES + OTHER_BYTES, `the memory in use has grown by ${grown} bytes`)
  const mib = (count: number): string => (count / 1024 / 1024).toFixed(1)
  t.diagnostic(`${channels} channels in memory, ${mib(bytes)} MiB; the memory in use has grown by ${mib(grown)} MiB`)

  const below = randomBelow(SEED)
  const other = (): number => 1 + below(CHANNELS - 1)
  say(`to any (target ${TARGET} times)`, await messages.compare(store, other))
  const late = await openPostgresStore(options, () => {})
  t.after(() => late.close())
  say('to one that the node does not remember', await messages.compare(late, other))
})
