/** What all lanes of a node share: the way to the primary, its state and clock, the days of ids, and the census. */
import { StaticError } from '@static/protocol'
import { type Durability, MAX_STORE_CLOCK_OFFSET_MS, type StoreCensus, type Time } from '../../ports.ts'
import type { PostgresAddress } from '@static/node/postgres-address'
import { type Connected, connect, examine } from './connector.ts'
import { IdDays } from './days.ts'
import { type Session, statement } from './session.ts'

/** How often the server's state and clock are looked at, and everything is counted. */
const EXAMINE_MS = 5000
const CENSUS_MS = 60_000
/** After a failed attempt, the next one waits, and calls are refused meanwhile. */
const RETRY_MS = 100

const CENSUS = statement(`SELECT count(*), coalesce(sum(bytes), 0)::bigint, min(oldest_at),
  pg_database_size(current_database()) FROM channels`)

/** How far the server's clock was ahead, and when that was, by our clock and by one that is never set. */
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
  readonly #days = new IdDays()
  readonly #timer: NodeJS.Timeout
  #session: Session
  #durability: Durability
  #compared: Comparison
  #census: StoreCensus | undefined
  #countedAt = -Infinity
  #expiredDay = 0
  #failure: { readonly at: number; readonly error: unknown } | undefined
  /** Whether the server could lose messages, as it was last examined. */
  #isRefused = false
  /** One thing at a time: its connection is not for transactions of others. */
  #work: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(address: PostgresAddress, { session, durability, clockOffsetMs }: Connected) {
    this.#address = address
    this.#session = session
    this.#durability = durability
    this.#compared = compared(clockOffsetMs)
    this.#timer = setInterval(() => void this.#look(), EXAMINE_MS).unref()
  }

  get healthy(): boolean {
    return this.#failure === undefined && !this.#isRefused
  }

  get durability(): Durability {
    return this.#durability
  }

  /** How far the server's clock is ahead of ours. Ours may have been set since they were compared. */
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

  /** A connection for a lane. Rejects at once while the last attempt has only just failed. */
  async connect(): Promise<Session> {
    if (this.#closed) throw StaticError.of('closed', 'The store is closed.')
    if (this.#failure && performance.now() - this.#failure.at < RETRY_MS) throw this.#failure.error
    try {
      const { session, durability, clockOffsetMs } = await connect(this.#address)
      this.#failure = undefined
      this.#durability = durability
      this.#compared = compared(clockOffsetMs)
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
      // The next sweep tries again.
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#work.catch(() => {})
    await this.#session.end()
  }

  /** Ids could not be stored: another node has dropped the table of their day. */
  forgetDays(): void {
    this.#days.forget()
  }

  async #examine(session: Session): Promise<void> {
    const { durability, clockOffsetMs } = await examine(session)
    this.#durability = durability
    this.#compared = compared(clockOffsetMs)
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
    const [row] = await session.rows(CENSUS)
    const [channels, logBytes, oldestAt, fileBytes] = row as [number, number, Time | null, number]
    this.#census = { channels, logBytes, oldestAt: oldestAt ?? undefined, fileBytes, freeBytes: 0 }
    this.#countedAt = performance.now()
  }

  /** Waits for earlier work, and connects again if necessary. */
  #use(work: (session: Session) => Promise<void>): Promise<void> {
    const done = this.#work.then(async () => {
      if (this.#session.lost) this.#session = await this.connect()
      await work(this.#session)
    })
    this.#work = done.catch(() => {})
    return done
  }
}
