/** The engine for several nodes: PostgreSQL holds the channels, and any node serves any of them. */
import { hash, randomBytes } from 'node:crypto'
import { StaticError } from '@static/protocol'
import {
  type ChannelId,
  type Deployment,
  type Durability,
  MAX_STORE_CLOCK_OFFSET_MS,
  type Retention,
  type Store,
  type StoreCensus,
  type StoreListener,
  type StoreOperation,
  type StoreRequest,
  type StoreResult,
} from '../../ports.ts'
import type { Call } from '../sqlite/worker-messages.ts'
import { parsePostgresUrl } from '@static/node/postgres-address'
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
  /** Called for each transaction with the time that its statements and its commit took. */
  readonly onCommit?: ((milliseconds: number) => void) | undefined
  /** Called for each operation that found damaged data. The node stays healthy: all nodes have the same data. */
  readonly onDamage?: ((error: unknown) => void) | undefined
  /** Number of connections whose transactions run beside each other. */
  readonly lanes?: number
  /** How long the sizes of accounts and the cursors of members count as known, while other nodes may change them. */
  readonly freshMs?: number
  /** Approximate memory limit for channel records. */
  readonly cachedBytes?: number
  /** How often the server is looked at; one that misses three of them is given up. */
  readonly examineMs?: number | undefined
}

/** A store in PostgreSQL. */
export interface PostgresStore extends Store {
  /** Number of transactions; many operations share one. */
  readonly transactions: number
  /** Number of cached channels and their approximate size. */
  readonly cached: { readonly channels: number; readonly bytes: number }
}

const LANES = 2
const FRESH_MS = 1000
const NAME_BYTES = 8

/** Operations of one channel: they may run beside those of others. */
const OF_CHANNEL = new Set<StoreOperation>([
  'append',
  'commit',
  'create',
  'reject',
  'liftBar',
  'resetRoster',
  'welcome',
  'leave',
  'check',
  'read',
  'takeJoins',
])
/** Operations that need not see what was asked for before them. */
const UNORDERED = new Set<StoreOperation>(['allot', 'owned', 'useNonce', 'heads', 'notices', 'sweep'])

/**
 * Opens the database; creates the tables of a new deployment. Throws `unavailable` if no host takes writes, and
 * `invalid_request` if this node must not use the database, with one sentence that says why.
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
    if (Math.abs(first.clockOffsetMs) > MAX_STORE_CLOCK_OFFSET_MS) {
      const seconds = (first.clockOffsetMs / 1000).toFixed(1)
      throw StaticError.of(
        'invalid_request',
        `The clock of PostgreSQL is ${seconds} s ahead of this node's. Set both by NTP.`,
      )
    }
    const deployment = await openDeployment(first.session, keyFile)
    const keeper = new Keeper(address, name, first, options.examineMs)
    const parts = {
      retention,
      listener,
      cache: { cachedBytes: cachedBytes / lanes, freshMs, accounts: new Map() },
      connect: () => keeper.connect(),
      ensureDay: (at: number) => keeper.ensureDay(at),
      onMissingDay: () => keeper.forgetDays(),
      onCommit: options.onCommit ?? (() => {}),
      onExpired: (since: number) => keeper.expired(since),
      onDamage: options.onDamage ?? (() => {}),
    }
    return new LanedStore(
      deployment,
      keeper,
      Array.from({ length: lanes }, () => new Lane(parts)),
    )
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

/** Divides calls among lanes by their channel. */
class LanedStore implements PostgresStore {
  readonly deployment: Deployment
  readonly #keeper: Keeper
  readonly #lanes: readonly Lane[]
  #closed = false

  constructor(deployment: Deployment, keeper: Keeper, lanes: readonly Lane[]) {
    this.deployment = deployment
    this.#keeper = keeper
    this.#lanes = lanes
  }

  get transactions(): number {
    return this.#lanes.reduce((sum, { transactions }) => sum + transactions, 0)
  }

  get cached(): { readonly channels: number; readonly bytes: number } {
    const all = this.#lanes.map(({ cached }) => cached)
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
    await Promise.all(this.#lanes.map((lane) => lane.close()))
    await this.#keeper.close()
  }

  async #run(given: Call): Promise<object> {
    const { isClockRight, clockOffsetMs } = this.#keeper
    // A node whose clock is wrong would delete what others still need.
    if (given.name === 'sweep' && !isClockRight) return { removed: 0 }
    // Nor may it take ids for expired that are not, or count for another hour: the clock of the database decides.
    const call = isClockRight ? given : setRight(given, clockOffsetMs)
    const { name, request } = call
    if (name === 'ack') return this.#ack(request)
    if (this.#lanes.length === 1) return this.#lane('').run(call)
    if (name === 'registerInvite') return this.#lane(request.invite.channel).run(call)
    if (name === 'requestJoin') return this.#lane(request.join.channel).run(call)
    if (OF_CHANNEL.has(name)) return this.#lane((request as { channel: ChannelId }).channel).run(call)
    // It may look at any channel: what was asked for before is done first.
    if (!UNORDERED.has(name)) await Promise.all(this.#lanes.map((lane) => lane.flushed()))
    return this.#lane('').run(call)
  }

  async #ack({ agent, positions }: StoreRequest<'ack'>): Promise<StoreResult<'ack'>> {
    // One call for each channel: what all of them miss is fetched at once (lane.ts).
    const calls = positions.map((position) =>
      this.#lane(position.channel).run({ name: 'ack', request: { agent, positions: [position] } }),
    )
    await Promise.all(calls)
    return { done: true }
  }

  #lane(channel: ChannelId): Lane {
    // Hashed, because agents choose channel ids. What belongs to no channel has the empty one.
    const place = channel === '' ? 0 : hash('sha256', channel, 'buffer').readUInt32BE(0)
    const lane = this.#lanes[place % this.#lanes.length]
    if (!lane) throw StaticError.of('internal_error', 'The store has no lane.')
    return lane
  }
}
