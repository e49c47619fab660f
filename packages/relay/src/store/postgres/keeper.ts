/**
 * State that all lanes of a node share: the connection to the primary, its state and clock, the days of ids, and the
 * census.
 */
import { StaticError } from '@static/protocol'
import { type Durability, MAX_STORE_CLOCK_OFFSET_MS, type StoreCensus, type Time } from '../../ports.ts'
import type { PostgresAddress } from '@static/node/postgres-address'
import { type Connected, connect, examine } from './connector.ts'
import { IdDays } from './days.ts'
import { type Session, statement } from './session.ts'

/** How often the server's state and clock are examined, and everything is counted. */
const EXAMINE_MS = 1000
const CENSUS_MS = 60_000
/**
 * How many examinations may go unanswered: they need no lock and no disk. Counted rather than timed, because this
 * process may itself have been paused.
 */
const MAX_UNANSWERED = 3
/** Pause after a failed attempt; calls are refused meanwhile. */
const RETRY_MS = 100

const CENSUS = statement(`SELECT count(*), coalesce(sum(bytes), 0)::bigint, min(oldest_at),
  pg_database_size(current_database()) FROM channels`)

/** How far the server's clock was ahead, and when that was, by our wall clock and by the monotonic clock. */
interface Comparison {
  readonly offsetMs: number
  readonly at: Time
  readonly steadyAt: number
}

function compared(offsetMs: number): Comparison {
  return { offsetMs, at: Date.now(), steadyAt: performance.now() }
}

/** Watches the database with a connection of its own. */
export class Keeper {
  readonly #address: PostgresAddress
  readonly #name: string
  readonly #days = new IdDays()
  readonly #timer: NodeJS.Timeout
  /** The connections of lanes. */
  readonly #sessions = new Set<Session>()
  #session: Session
  #durability: Durability
  #nodes: number
  #compared: Comparison
  #census: StoreCensus | undefined
  #countedAt = -Infinity
  #expiredDay = 0
  #failure: { readonly at: number; readonly error: unknown } | undefined
  /** Whether the server could lose messages, as last examined. */
  #isRefused = false
  /** When the server last answered, by the monotonic clock, and how many examinations it has missed since. */
  #answeredAt = performance.now()
  #unanswered = 0
  #isLooking = false
  #isExamining = false
  /** Runs one task at a time: its connection is not for others' transactions. */
  #work: Promise<unknown> = Promise.resolve()
  #closed = false

  /** `name`: this node's name at the server. */
  constructor(
    address: PostgresAddress,
    name: string,
    { session, durability, clockOffsetMs, nodes }: Connected,
    examineMs: number = EXAMINE_MS,
  ) {
    this.#address = address
    this.#name = name
    this.#nodes = nodes
    this.#session = session
    this.#durability = durability
    this.#compared = compared(clockOffsetMs)
    this.#timer = setInterval(() => this.#tick(), examineMs).unref()
  }

  get healthy(): boolean {
    return this.#failure === undefined && !this.#isRefused
  }

  /** How long the server has not answered; 0 while it answers. */
  get silentMs(): number {
    return this.healthy ? 0 : performance.now() - this.#answeredAt
  }

  /** How many nodes use the server, including this one. */
  get nodes(): number {
    return this.#nodes
  }

  get durability(): Durability {
    return this.#durability
  }

  /** How far the server's clock is ahead of ours, which may have been set since they were compared. */
  get clockOffsetMs(): number {
    const { offsetMs, at, steadyAt } = this.#compared
    const jump = Date.now() - at - (performance.now() - steadyAt)
    return Math.round(offsetMs - jump)
  }

  get isClockRight(): boolean {
    return Math.abs(this.clockOffsetMs) <= MAX_STORE_CLOCK_OFFSET_MS
  }

  get census(): StoreCensus | undefined {
    return this.#census
  }

  /** Opens a connection for a lane. Rejects at once if the last attempt has just failed. */
  async connect(): Promise<Session> {
    if (this.#closed) throw StaticError.of('closed', 'The store is closed.')
    if (this.#failure && performance.now() - this.#failure.at < RETRY_MS) throw this.#failure.error
    try {
      const { session, durability, clockOffsetMs, nodes } = await connect(this.#address, this.#name)
      this.#answered()
      this.#durability = durability
      this.#nodes = nodes
      this.#compared = compared(clockOffsetMs)
      for (const known of this.#sessions) if (known.lost) this.#sessions.delete(known)
      this.#sessions.add(session)
      return session
    } catch (error) {
      this.#failure = { at: performance.now(), error }
      throw error
    }
  }

  async ensureDay(at: Time): Promise<void> {
    if (!this.#days.has(at)) await this.#use((session) => this.#days.ensure(session, at))
  }

  /** Drops the ids of days before a time, once a day. */
  async expired(since: Time): Promise<void> {
    const day = Math.floor(since / 86_400_000)
    if (day === this.#expiredDay) return
    try {
      await this.#use((session) => this.#days.drop(session, since))
      this.#expiredDay = day
    } catch {
      // The next sweep retries.
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#work.catch(() => {})
    await this.#session.end()
  }

  /** Called when ids could not be stored: another node has dropped the table of their day. */
  forgetDays(): void {
    this.#days.forget()
  }

  async #examine(session: Session): Promise<void> {
    this.#isExamining = true
    try {
      const { durability, clockOffsetMs, nodes } = await examine(session)
      this.#durability = durability
      this.#nodes = nodes
      this.#compared = compared(clockOffsetMs)
    } finally {
      this.#isExamining = false
    }
    this.#answered()
  }

  #tick(): void {
    if (!this.#isLooking) {
      this.#isLooking = true
      void this.#look().finally(() => (this.#isLooking = false))
    } else if (this.#isExamining && ++this.#unanswered === MAX_UNANSWERED) this.#abandon()
  }

  #answered(): void {
    this.#failure = undefined
    this.#unanswered = 0
    this.#answeredAt = performance.now()
  }

  /** The server or the network is down: stops waiting for answers. */
  #abandon(): void {
    this.#failure = { at: performance.now(), error: StaticError.of('unavailable', 'PostgreSQL does not answer.') }
    for (const session of [this.#session, ...this.#sessions]) session.destroy()
    this.#sessions.clear()
  }

  async #look(): Promise<void> {
    await this.#use(async (session) => {
      await this.#examine(session)
      if (performance.now() - this.#countedAt >= CENSUS_MS) await this.#count(session)
      this.#isRefused = false
    }).catch((error: unknown) => {
      if (StaticError.from(error).code === 'invalid_request') this.#isRefused = true
    })
  }

  async #count(session: Session): Promise<void> {
    // Even if it fails: it may take too long for a statement, and must not be retried at once.
    this.#countedAt = performance.now()
    const [row] = await session.rows(CENSUS)
    const [channels, logBytes, oldestAt, fileBytes] = row as [number, number, Time | null, number]
    this.#census = { channels, logBytes, oldestAt: oldestAt ?? undefined, fileBytes, freeBytes: 0 }
  }

  /** Waits for earlier work, and reconnects if necessary. */
  #use(work: (session: Session) => Promise<void>): Promise<void> {
    const done = this.#work.then(async () => {
      if (this.#session.lost) this.#session = await this.connect()
      await work(this.#session)
    })
    this.#work = done.catch(() => {})
    return done
  }
}
