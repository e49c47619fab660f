/**
 * One lane: a connection, its cache, and the calls that wait for it. All calls waiting when it becomes free share a
 * transaction, so that one flush to disk serves many.
 */
import { hash, randomInt } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Hash } from '@static/protocol'
import { OutcomeUnknown, type Retention, type StoreListener, type Time } from '../../ports.ts'
import { batchLength, BATCH_CALLS } from '../batch.ts'
import type { Answer, Call } from '../call.ts'
import { Ledger } from '../ledger/ledger.ts'
import { type Aside, type Waiting, findBlocked } from './aside.ts'
import { wasCommitted } from './doubt.ts'
import { Missing, Unforeseen } from './facts.ts'
import { Disconnected, type Doubt, Unreachable, isDamage, isDisconnection, unavailable } from './failures.ts'
import { ALONE, type Append, READING, assume, prefetch } from './needs.ts'
import { PostgresRows } from './rows.ts'
import type { Session } from './session.ts'
import type { CacheOptions } from './tables/channel-cache.ts'
import type { Transaction } from './write.ts'

/** How often a batch is decided again because of missing rows, and how often it is retried after a conflict. */
const MAX_DECISIONS = 10_000
const MAX_TRIES = 5
/** How long a lane tries to find out whether a transaction was committed, and the pause between attempts. */
const DOUBT_MS = 5000
const DOUBT_PAUSE_MS = 250
/** The largest range of `randomInt`. */
const MAX_STAMP = 2 ** 48 - 1
const LOCK_TIMEOUT = '55P03'
/** No partition of the table accepts the row. */
const NO_PARTITION = '23514'
/**
 * Serialization failure, deadlock, unique violation, lock timeout, missing partition: another node was faster, and a
 * retry sees its changes.
 */
const CONFLICTS = new Set(['40001', '40P01', '23505', LOCK_TIMEOUT, NO_PARTITION])

const NONE: ReadonlySet<Waiting> = new Set()

const sha256: Hash = (bytes) => hash('sha256', bytes, 'buffer')

/** The parts that a lane is built from. */
export interface LaneParts {
  readonly retention: Retention
  readonly listener: StoreListener
  readonly cache: CacheOptions
  /** How long a statement waits for a lock of another node. */
  readonly lockMs: number
  /** Where calls that did not get a lock in that time wait; without it, they are retried. */
  readonly aside?: Aside | undefined
  /** Opens a connection. Rejects if none is available at the moment. */
  readonly connect: () => Promise<Session>
  /** Makes sure that ids of a time can be stored. */
  readonly ensureDay: (at: Time) => Promise<void>
  /** Called when the table of a day is gone. */
  readonly onMissingDay: () => void
  readonly onCommit: (milliseconds: number) => void
  /** Called when a sweep has found that ids from before this time have expired. */
  readonly onExpired: (since: Time) => Promise<void>
  readonly onDamage: (error: unknown) => void
}

/** Runs calls one batch after the other. */
export class Lane {
  readonly #parts: LaneParts
  readonly #rows: PostgresRows
  readonly #ledger: Ledger
  readonly #transaction: Transaction
  readonly #queue: Waiting[] = []
  #session: Session | undefined
  #working: Promise<void> | undefined
  #last: Promise<void> = Promise.resolve()
  #transactions = 0

  constructor(parts: LaneParts) {
    this.#parts = parts
    // Set by the first batch, before anything uses it.
    this.#transaction = { session: undefined as never, locks: true, isSingle: false, stamp: 0, sent: [] }
    this.#rows = new PostgresRows(this.#transaction, sha256, parts.cache)
    this.#ledger = new Ledger(this.#rows, sha256, parts.retention)
  }

  get transactions(): number {
    return this.#transactions
  }

  get cached(): { readonly channels: number; readonly bytes: number } {
    return this.#rows.channels.cached
  }

  run(call: Call): Promise<object> {
    const { promise, resolve, reject } = Promise.withResolvers<object>()
    this.#last = new Promise((release) => {
      this.#queue.push({ call, resolve, reject, release })
      promise.catch(() => {}).finally(release)
    })
    this.#working ??= Promise.resolve().then(() => this.#work())
    return promise
  }

  /** Resolves once all calls so far have been answered, except for those that were set aside. */
  flushed(): Promise<void> {
    return this.#last
  }

  async close(): Promise<void> {
    while (this.#working) await this.#working
    await this.#session?.end()
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) {
      const calls = this.#queue.slice(0, BATCH_CALLS).map(({ call }) => call)
      await this.#batch(this.#queue.splice(0, batchLength(calls, ALONE)))
      // Answered callers may send more at once, which then joins the next batch.
      await new Promise(setImmediate)
    }
    this.#working = undefined
  }

  async #batch(batch: readonly Waiting[], tries = 1, way: 'any' | 'transaction' = 'any'): Promise<void> {
    let answers: readonly (Answer | undefined)[]
    try {
      const calls = batch.map(({ call }) => call)
      const session = await this.#connected()
      const isAny = way === 'any' && tries === 1
      answers = (isAny && (await this.#append(session, calls))) || (await this.#transact(session, calls))
    } catch (error) {
      const { code } = error as { code?: string }
      if (error instanceof Disconnected) {
        const { doubt } = error
        const isCommitted = doubt ? await this.#wasCommitted(doubt) : false
        if (doubt && isCommitted) return this.#answer(batch, doubt.answers)
        const isWorthIt = isCommitted === false && !(error instanceof Unreachable)
        if (isWorthIt && tries < 2) return this.#batch(batch, tries + 1)
        const isUnknown = doubt !== undefined && isCommitted === undefined
        for (const { reject } of batch) reject(isUnknown ? new OutcomeUnknown(error) : unavailable(error))
        return
      }
      if (code === NO_PARTITION) this.#parts.onMissingDay()
      if (code === LOCK_TIMEOUT && this.#parts.aside) return this.#setAside(this.#parts.aside, batch, tries)
      if (code !== undefined && CONFLICTS.has(code) && tries < MAX_TRIES) return this.#batch(batch, tries + 1)
      if (batch.length > 1) {
        for (const one of batch) await this.#batch([one])
        return
      }
      this.#blame(error)
      if (batch[0]?.call.name === 'sweep' && isDamage(error)) this.#rows.due.stopped()
      batch[0]?.reject(unavailable(error))
      return
    }
    return this.#answer(batch, answers)
  }

  /**
   * Moves calls that wait for another node's lock, and those queued behind them, to another lane, and runs the others.
   */
  async #setAside(aside: Aside, batch: readonly Waiting[], tries: number): Promise<void> {
    // If that cannot be determined, all of them are retried.
    const find = async (): Promise<ReadonlySet<Waiting>> => findBlocked(await this.#connected(), batch)
    const blocked = await find().catch(() => NONE)
    const rest = batch.filter((waiting) => !blocked.has(waiting))
    for (const waiting of blocked) this.#release(aside, waiting)
    const queue = this.#queue.splice(0)
    for (const waiting of queue) {
      if (aside.has(waiting.call)) this.#release(aside, waiting)
      else this.#queue.push(waiting)
    }
    if (rest.length === 0) return
    if (tries < MAX_TRIES) return this.#batch(rest, blocked.size > 0 ? tries : tries + 1, 'transaction')
    for (const { reject } of rest) reject(unavailable(new Error('another node holds a lock')))
  }

  #release(aside: Aside, { call, resolve, reject, release }: Waiting): void {
    aside.run(call).then(resolve, reject)
    release()
  }

  /** Calls without an answer are not decided yet. */
  async #answer(batch: readonly Waiting[], answers: readonly (Answer | undefined)[]): Promise<void> {
    for (const [at, { resolve, reject }] of batch.entries()) {
      const answer = answers[at]
      if (!answer) continue
      if ('failed' in answer) reject(unavailable(new Error(answer.failed)))
      else {
        for (const event of answer.events) this.#parts.listener(event)
        resolve(answer.result)
      }
    }
    const left = batch.filter((_, at) => !answers[at])
    if (left.length > 0) await this.#batch(left, 1, 'transaction')
  }

  /** Finds out on a new connection; undefined if that fails. */
  async #wasCommitted({ proof }: Doubt): Promise<boolean | undefined> {
    if (!proof) return undefined
    const until = performance.now() + DOUBT_MS
    for (;;) {
      try {
        return await wasCommitted(await this.#connected(), proof)
      } catch {
        // The primary is not back yet, or the transaction is still running.
        if (performance.now() >= until) return undefined
        await wait(DOUBT_PAUSE_MS)
      }
    }
  }

  /**
   * Stores messages in one round trip: decides from the cache, without a lock, and has PostgreSQL check that the cache
   * is current. Channels not in the cache are read first, in a round trip of their own. Returns undefined, with nothing
   * stored, if the cache was not current or if the messages need anything else. Acknowledgements, messages that would
   * be refused, and those of channels that recently missed the fast path get no answer here: they must not slow down
   * others.
   */
  async #append(session: Session, calls: readonly Call[]): Promise<(Answer | undefined)[] | undefined> {
    const rows = this.#rows
    if (!calls.every(({ name }) => name === 'append' || name === 'ack')) return undefined
    const messages = calls.filter((call): call is Append => call.name === 'append')
    const fast = new Set<Call>(messages.filter(({ request }) => !rows.channels.isDistrusted(request.channel)))
    if (fast.size === 0) return undefined
    this.#begin({ session, locks: true, isSingle: true })
    let doubt: Doubt | undefined
    try {
      await this.#ensureDays(calls)
      rows.begin()
      await assume(rows, [...fast] as Append[])
      const accounts = rows.channels.accounts()
      await rows.accounts.assumeKnown(accounts)
      const answers = calls.map((call) => {
        const isFast = fast.has(call) && !rows.channels.isDamaged((call as Append).request.channel)
        const answer = isFast ? this.#call(call, true) : undefined
        return answer && isStored(answer) ? answer : undefined
      })
      const stored = answers.filter((answer) => answer !== undefined)
      const started = performance.now()
      // Lagging members are read with the lock: other nodes move cursors without changing the version.
      const isPlain = stored.length > 0 && stored.every(({ result }) => !('pressure' in result))
      const storing = isPlain && rows.storeIfCurrent(stored.length)
      if (storing) doubt = { answers, proof: rows.proof() }
      // This read runs behind it: nothing waits for it, and its failure undoes nothing.
      rows.accounts.refresh(accounts).catch((error: unknown) => this.#blame(error))
      if (!(await storing)) {
        rows.rewind()
        return undefined
      }
      this.#parts.onCommit(performance.now() - started)
      this.#transactions += 1
      rows.committed()
      return answers
    } catch (error) {
      if (error instanceof Missing || error instanceof Unforeseen) {
        rows.rewind()
        return undefined
      }
      return this.#fail(session, error, doubt)
    }
  }

  async #transact(session: Session, calls: readonly Call[]): Promise<Answer[]> {
    const rows = this.#rows
    const locks = !calls.every(({ name }) => READING.has(name))
    this.#begin({ session, locks, isSingle: false })
    let doubt: Doubt | undefined
    try {
      await this.#ensureDays(calls)
      // A transaction that only reads sees one moment of all tables, without a lock.
      const begun = session.run(locks ? 'BEGIN' : 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      begun.catch(() => {})
      rows.begin()
      await prefetch(rows, calls)
      await begun
      const answers = await this.#decide(calls)
      this.#noteSlow(calls, answers)
      rows.write()
      const started = performance.now()
      if (locks) doubt = { answers, proof: rows.proof() }
      const committed = session.run('COMMIT')
      const results = await Promise.allSettled([...this.#transaction.sent, committed])
      for (const result of results) if (result.status === 'rejected') throw result.reason
      if ((await committed) !== 'COMMIT') throw new Error('PostgreSQL rolled the transaction back')
      if (locks) this.#parts.onCommit(performance.now() - started)
      this.#transactions += 1
      rows.committed()
      if (rows.ids.expired !== undefined) await this.#parts.onExpired(rows.ids.expired)
      return answers
    } catch (error) {
      return this.#fail(session, error, doubt)
    }
  }

  /** Channels that missed the fast path skip it for a while, so that they do not slow the batch. */
  #noteSlow(calls: readonly Call[], answers: readonly Answer[]): void {
    for (const [at, { name, request }] of calls.entries()) {
      const answer = answers[at]
      const isPlain = answer && isStored(answer) && !('pressure' in answer.result)
      if (name === 'append' && !isPlain) this.#rows.channels.distrust(request.channel)
    }
  }

  #begin(transaction: Pick<Transaction, 'session' | 'locks' | 'isSingle'>): void {
    Object.assign(this.#transaction, transaction, { stamp: randomInt(MAX_STAMP), sent: [] })
  }

  /** Ends a transaction that failed. */
  async #fail(session: Session, error: unknown, doubt: Doubt | undefined): Promise<never> {
    this.#rows.rewind()
    const { code } = error as { code?: string }
    // An error from the server leaves the connection and the cache of other channels usable: they should not be lost
    // whenever two nodes conflict. Any other error ends the connection.
    if (!session.lost && code !== undefined && /^[0-9A-Z]{5}$/.test(code) && !/^(08|57P|25P03)/.test(code)) {
      await session.run('ROLLBACK').catch(() => session.end())
      throw error
    }
    this.#rows.forget()
    if (!session.lost && !isDisconnection(error)) {
      await session.run('ROLLBACK').catch(() => session.end())
      throw error
    }
    await session.end()
    throw new Disconnected(doubt, error)
  }

  async #ensureDays(calls: readonly Call[]): Promise<void> {
    for (const { request } of calls) if ('now' in request) await this.#parts.ensureDay(request.now)
  }

  /** Decides all calls, and starts again whenever rows are missing. Nothing has been written yet. */
  async #decide(calls: readonly Call[]): Promise<Answer[]> {
    for (let decisions = 0; decisions < MAX_DECISIONS; decisions++) {
      const missing: Missing[] = []
      const answers = calls.flatMap((call) => this.#tried(call, missing) ?? [])
      if (missing.length === 0) return answers
      this.#rows.rewind()
      const [first] = await Promise.allSettled(missing.map(({ fetch }) => fetch()))
      // The other fetches may rest on wrong assumptions.
      if (first?.status === 'rejected') throw first.reason
      await prefetch(this.#rows, calls)
    }
    throw new Error('the batch asks for more rows every time')
  }

  /**
   * Decides a call, or records the rows it misses. The calls after it are still tried, so that everything they miss is
   * fetched together; their decisions and failures are ignored.
   */
  #tried(call: Call, missing: Missing[]): Answer | undefined {
    try {
      return this.#call(call, missing.length === 0)
    } catch (error) {
      if (error instanceof Missing) missing.push(error)
      else if (missing.length === 0) throw error
      this.#rows.channels.suspect()
      return undefined
    }
  }

  #call({ name, request }: Call, isSure: boolean): Answer {
    try {
      this.#rows.channels.enter(name === 'ack')
      return this.#ledger.run(name, request)
    } catch (error) {
      // Nothing has changed, so repeated requests for damaged data do not slow down the others.
      const isUnchanged = READING.has(name) || ('channel' in request && this.#rows.channels.isDamaged(request.channel))
      if (!isSure || !isUnchanged || !isDamage(error)) throw error
      this.#blame(error)
      return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) }
    }
  }

  async #connected(): Promise<Session> {
    if (this.#session && !this.#session.lost) return this.#session
    // The new server may have another history with the same versions.
    this.#rows.forget()
    try {
      const session = await this.#parts.connect()
      await session.run(`SET lock_timeout = ${this.#parts.lockMs}`)
      this.#session = session
      return session
    } catch (error) {
      throw new Unreachable(undefined, error)
    }
  }

  #blame(error: unknown): void {
    if (isDamage(error)) this.#parts.onDamage(error)
  }
}

/** Whether a message was stored: not refused, and not a repeated one. */
function isStored(answer: Answer): answer is Exclude<Answer, { readonly failed: unknown }> {
  return 'events' in answer && answer.events.length > 0
}
