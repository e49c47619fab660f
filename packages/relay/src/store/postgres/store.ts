/** The engine for several nodes: PostgreSQL holds the channels, and any node serves any of them. */
import { hash, randomBytes } from 'node:crypto'
import { StaticError } from '@static/protocol'
import {
  type ChannelId,
  type Deployment,
  type Durability,
  type Retention,
  type Store,
  type StoreCensus,
  type StoreListener,
  type StoreOperation,
  type StoreRequest,
  type StoreResult,
  storeClockProblem,
} from '../../ports.ts'
import { parsePostgresUrl } from '@static/node/postgres-address'
import type { Call } from '../call.ts'
import { Aside } from './aside.ts'
import { channelOf } from './call-channel.ts'
import { connect } from './connector.ts'
import { openDeployment } from './deployment.ts'
import { Keeper } from './keeper.ts'
import { Lane } from './lane.ts'
import { APPLICATION } from './session.ts'
import { CACHED_BYTES } from './tables/channel-cache.ts'

/** Options of a store in PostgreSQL. */
export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port,host:port/database`. */
  readonly url: string
  /** The path of `relay.key`; created with a new deployment. */
  readonly keyFile: string
  readonly retention: Retention
  /** Called for each transaction with the time taken by its statements and its commit. */
  readonly onCommit?: ((milliseconds: number) => void) | undefined
  /** Called for each operation that found damaged data. The node stays healthy: all nodes have the same data. */
  readonly onDamage?: ((error: unknown) => void) | undefined
  /** Number of connections whose transactions run in parallel. */
  readonly lanes?: number
  /** How long the sizes of accounts and the cursors of members count as known, while other nodes may change them. */
  readonly freshMs?: number
  /** Approximate memory limit for channel records. */
  readonly cachedBytes?: number
  /** How often the server is examined; one that misses three examinations is given up. */
  readonly examineMs?: number | undefined
}

/** A store in PostgreSQL. */
export interface PostgresStore extends Store {
  /** Number of transactions; many operations share one. */
  readonly transactions: number
  readonly cached: { readonly channels: number; readonly bytes: number }
}

const LANES = 2
const FRESH_MS = 1000
const NAME_BYTES = 8

/**
 * How long calls wait for a lock of another node. With retries, longer than PostgreSQL keeps the lock of a node that is
 * cut off.
 */
const LOCK_MS = 250
const ASIDE_LOCK_MS = 2000
/** Memory limit for channel records of calls that were set aside. */
const ASIDE_BYTES = 1_048_576

/** Operations that need not see the effects of earlier calls. */
const UNORDERED = new Set<StoreOperation>([
  'allot',
  'owned',
  'useNonce',
  'heads',
  'notices',
  'sweep',
  'dueFiles',
  'forgetFiles',
  'knownFiles',
])

/**
 * Opens the database; creates the tables of a new deployment. Throws `unavailable` if no host accepts writes, and
 * `invalid_request` with the reason if this node must not use the database.
 */
export async function openPostgresStore(
  options: PostgresStoreOptions,
  listener: StoreListener,
): Promise<PostgresStore> {
  const { url, keyFile, retention, lanes = LANES, freshMs = FRESH_MS, cachedBytes = CACHED_BYTES } = options
  const address = parsePostgresUrl(url)
  const name = `${APPLICATION} ${randomBytes(NAME_BYTES).toString('hex')}`
  const first = await connect(address, name)
  try {
    const problem = storeClockProblem(first.clockOffsetMs)
    if (problem !== undefined) throw StaticError.of('invalid_request', problem)
    const deployment = await openDeployment(first.session, keyFile)
    const keeper = new Keeper(address, name, first, options.examineMs)
    const parts = {
      retention,
      listener,
      cache: { cachedBytes: cachedBytes / lanes, freshMs, accounts: new Map() },
      lockMs: LOCK_MS,
      connect: () => keeper.connect(),
      ensureDay: (at: number) => keeper.ensureDay(at),
      onMissingDay: () => keeper.forgetDays(),
      onCommit: options.onCommit ?? (() => {}),
      onExpired: (since: number) => keeper.expired(since),
      onDamage: options.onDamage ?? (() => {}),
    }
    const asideCache = { ...parts.cache, cachedBytes: ASIDE_BYTES }
    const asideLane = new Lane({ ...parts, cache: asideCache, lockMs: ASIDE_LOCK_MS })
    const aside = new Aside((call) => asideLane.run(call))
    const all = Array.from({ length: lanes }, () => new Lane({ ...parts, aside }))
    return new LanedStore({ deployment, keeper, lanes: all, aside, asideLane })
  } catch (error) {
    await first.session.end()
    throw error
  }
}

function setRight(call: Call, clockOffsetMs: number): Call {
  const { request } = call
  if (!('now' in request)) return call
  return { ...call, request: { ...request, now: request.now + clockOffsetMs } } as Call
}

interface StoreParts {
  readonly deployment: Deployment
  readonly keeper: Keeper
  readonly lanes: readonly Lane[]
  readonly aside: Aside
  readonly asideLane: Lane
}

/** Divides calls among lanes by their channel. */
class LanedStore implements PostgresStore {
  readonly deployment: Deployment
  readonly #keeper: Keeper
  readonly #lanes: readonly Lane[]
  readonly #aside: Aside
  /** The lanes above, and the one for calls that were set aside. */
  readonly #allLanes: readonly Lane[]
  #closed = false

  constructor({ deployment, keeper, lanes, aside, asideLane }: StoreParts) {
    this.deployment = deployment
    this.#keeper = keeper
    this.#lanes = lanes
    this.#aside = aside
    this.#allLanes = [...lanes, asideLane]
  }

  get transactions(): number {
    return this.#allLanes.reduce((sum, { transactions }) => sum + transactions, 0)
  }

  get cached(): { readonly channels: number; readonly bytes: number } {
    const all = this.#allLanes.map(({ cached }) => cached)
    return {
      channels: all.reduce((sum, { channels }) => sum + channels, 0),
      bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
    }
  }

  async run<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Promise<StoreResult<Name>> {
    if (this.#closed) throw StaticError.of('closed', 'The store is closed.')
    return (await this.#run({ name, request } as unknown as Call)) as StoreResult<Name>
  }

  healthy(): boolean {
    return this.#keeper.healthy
  }

  silentMs(): number {
    return this.#keeper.silentMs
  }

  durability(): Durability {
    return this.#keeper.durability
  }

  nodes(): number {
    return this.#keeper.nodes
  }

  clockOffsetMs(): number {
    return this.#keeper.clockOffsetMs
  }

  census(): StoreCensus | undefined {
    return this.#keeper.census
  }

  async close(): Promise<void> {
    this.#closed = true
    // The last one waits for calls that other lanes set aside meanwhile.
    for (const lane of this.#allLanes) await lane.close()
    await this.#keeper.close()
  }

  async #run(given: Call): Promise<object> {
    const { isClockRight, clockOffsetMs } = this.#keeper
    // A node with a wrong clock would delete what others still need.
    if (given.name === 'sweep' && !isClockRight) return { removed: 0 }
    // It also must not treat live ids as expired, or count for another hour: the database's clock decides.
    const call = isClockRight ? given : setRight(given, clockOffsetMs)
    const { name, request } = call
    if (name === 'ack') return this.#ack(request)
    const channel = channelOf(call)
    if (channel !== undefined || this.#lanes.length === 1) return this.#runIn(channel ?? '', call)
    // It may access any channel, so earlier calls are finished first.
    if (!UNORDERED.has(name)) await Promise.all(this.#lanes.map((lane) => lane.flushed()))
    return this.#lane('').run(call)
  }

  async #ack({ agent, positions }: StoreRequest<'ack'>): Promise<StoreResult<'ack'>> {
    // One call for each channel: what they miss is fetched together (lane.ts).
    const calls = positions.map((position) =>
      this.#runIn(position.channel, { name: 'ack', request: { agent, positions: [position] } }),
    )
    await Promise.all(calls)
    return { done: true }
  }

  #runIn(channel: ChannelId, call: Call): Promise<object> {
    return this.#aside.has(call) ? this.#aside.run(call) : this.#lane(channel).run(call)
  }

  #lane(channel: ChannelId): Lane {
    // Hashed, because agents choose channel ids. Calls without a channel have an empty id.
    const place = channel === '' ? 0 : hash('sha256', channel, 'buffer').readUInt32BE(0)
    const lane = this.#lanes[place % this.#lanes.length]
    if (!lane) throw StaticError.of('internal_error', 'The store has no lane.')
    return lane
  }
}
