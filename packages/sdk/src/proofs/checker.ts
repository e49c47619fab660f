/**
 * Checks proofs for an agent: keeps the keys of its roots current, on a schedule that does not depend on proofs, and
 * says what a proof is worth. Files, network, clock and randomness are ports; `account/trust-store.ts` and
 * `account/fetch-keys.ts` implement them in Node.
 *
 * Use: `start()` once; `check(bytes, context)` when a proof arrives, and store a checked verdict; `standing(verdict)`
 * for a stored one, at start and after each `changed()`. Never for each message.
 */
import { StaticError } from '@static/protocol'
import type { Checked } from './check.ts'
import { afterFetch, contradictedId, type Fetched, type KeyState } from './key-state.ts'
import type { ProofContext } from './proof.ts'
import type { Root } from './roots.ts'
import { type KnownRoot, standingOf } from './standing.ts'
import type { CheckedProof, Verdict } from './verdict.ts'

/** What the checker asks of its surroundings. */
export interface CheckerPorts {
  /** The roots of this agent, as they are on disk now. */
  roots(): readonly Root[]
  /** What is stored about the keys of a root. */
  load(root: Root): KeyState
  /** Changes it durably, although other processes may do the same. */
  update(root: Root, change: (state: KeyState) => KeyState): void
  /** Changes whenever another process may have changed something. */
  version(): string
  /** Never throws. */
  fetch(root: Root): Promise<Fetched>
  /** The trust list or the keys cannot be read or written. Not called again until that has ended, or for another reason. */
  failed(error: StaticError): void
  now(): number
  /** Between 0 and 1. */
  chance(): number
  /** Runs an action after a delay. Returns a function that cancels it. */
  later(milliseconds: number, action: () => void): () => void
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** Hourly fetches are up to this much earlier or later. */
const JITTER_MS = 6 * MINUTE_MS
/** A fetch for an unknown key id is delayed by up to this, so that it does not show when a proof arrived. */
const LONGEST_DELAY_MS = 5 * MINUTE_MS

export class Checker {
  readonly #ports: CheckerPorts
  readonly #changed: () => void
  /** When the keys of each root are fetched next. */
  readonly #due = new Map<string, number>()
  #known: readonly KnownRoot[] = []
  #version: string | undefined
  /** Another process has changed something, and stored verdicts were not compared with it yet. */
  #isUnreviewed = false
  /** Cancels the next look at what is due; undefined while stopped. */
  #cancel: (() => void) | undefined
  /** Settles when the first fetches have ended. */
  #started: Promise<void> | undefined
  /** The last reason for which a round failed. */
  #failure: string | undefined

  /** `changed` runs when roots or keys have changed, and after each hourly fetch: verdicts may have another worth then. */
  constructor(ports: CheckerPorts, changed: () => void) {
    this.#ports = ports
    this.#changed = changed
  }

  /**
   * Begins to keep keys current. Resolves when those that are missing or old were fetched, or cannot be.
   *
   * @throws {StaticError} if the trust list cannot be read; it is read again every minute
   */
  async start(): Promise<void> {
    this.#watch()
    this.#started = this.#tryRound()
    await this.#started
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  get roots(): readonly Root[] {
    return this.#known.map(({ root }) => root)
  }

  /** Checks a proof that the member of the context has shown there. Also an agent's own, before it shows it. */
  async check(bytes: Uint8Array, context: ProofContext, unknownSince?: number): Promise<Verdict> {
    // Agents that never see a proof do not load the library.
    const { checkProof } = await import('./check.ts')
    // At its start, an agent would otherwise refuse joiners for want of keys.
    await this.#started?.catch(() => {})
    this.#readNow()
    const now = this.#ports.now()
    const { verdict, unknownKeys, pinned } = await checkProof(bytes, context, this.#known, now, unknownSince)
    for (const root of unknownKeys) this.#expectKey(root)
    try {
      const moved = verdict.state === 'checked' && pinned ? this.#keepIds(pinned) : undefined
      if (moved === undefined) return verdict
      return { state: 'invalid', reason: `${moved} is not the one that this name belonged to` }
    } catch (error) {
      // What a name stands for must be on disk before anyone is believed to have it.
      return { state: 'unchecked', reason: `the trust list cannot be written: ${StaticError.from(error).message}` }
    }
  }

  /** What a verdict of earlier is worth now. */
  standing(checked: CheckedProof): Verdict {
    return standingOf(checked, this.#known, this.#ports.now())
  }

  #watch(): void {
    this.#cancel = this.#ports.later(MINUTE_MS, () => {
      this.#watch()
      // The next round tries again. What cannot be renewed or stored ends by itself, after a day.
      this.#tryRound().catch(() => {})
    })
  }

  async #tryRound(): Promise<void> {
    try {
      // A round in which nothing is read or fetched says nothing about the disk.
      if (await this.#round()) this.#failure = undefined
    } catch (error) {
      const failure = StaticError.from(error)
      if (failure.message !== this.#failure) this.#ports.failed(failure)
      this.#failure = failure.message
      throw failure
    }
  }

  /** Reads what other processes have changed, and fetches what is due. Returns whether there was anything. */
  async #round(): Promise<boolean> {
    const isOther = this.#read() || this.#isUnreviewed
    this.#isUnreviewed = false
    const now = this.#ports.now()
    const due = this.#known.filter(({ root: { text } }) => {
      const at = this.#due.get(text) ?? 0
      // Later than any that was set: the clock was set back.
      return at <= now || at > now + HOUR_MS + JITTER_MS
    })
    // Before the first wait, so that no other round takes them as well.
    for (const { root } of due) this.#due.set(root.text, now + HOUR_MS)
    await Promise.all(due.map(({ root }) => this.#renew(root)))
    const isAny = isOther || due.length > 0
    if (!isAny || this.#cancel === undefined) return isAny
    this.#read()
    this.#changed()
    return true
  }

  async #renew(root: Root): Promise<void> {
    const fetched = await this.#ports.fetch(root)
    if (this.#cancel === undefined) return
    this.#ports.update(root, (state) => afterFetch(root, state, fetched, this.#ports.now()))
  }

  /** A root that was added or removed counts for the next proof, not only from the next round on. */
  #readNow(): void {
    try {
      if (this.#read()) this.#isUnreviewed = true
    } catch {
      // The next round says so. Until then, what was read last counts.
    }
  }

  /** Returns whether anything is different from before. */
  #read(): boolean {
    const version = this.#ports.version()
    if (version === this.#version) return false
    const before = new Map(this.#known.map(({ root, state }) => [root.text, state.triedAt]))
    this.#known = this.#ports.roots().map((root) => ({ root, state: this.#ports.load(root) }))
    this.#version = version
    for (const { root, state } of this.#known) {
      // Another process of the account may have fetched them: the hour counts from there.
      if (before.get(root.text) === state.triedAt) continue
      this.#due.set(root.text, state.triedAt + HOUR_MS + (2 * this.#ports.chance() - 1) * JITTER_MS)
    }
    return true
  }

  /** A new key of the issuer: one more fetch in an hour, at a time that does not show when the proof came. */
  #expectKey(root: Root): void {
    const now = this.#ports.now()
    if (Math.abs(now - this.#ports.load(root).addedAt) < HOUR_MS) return
    try {
      this.#ports.update(root, (state) => ({ ...state, addedAt: now }))
    } catch {
      // Without a record there would be no bound. The next hourly fetch finds the key as well, and says what is wrong.
      return
    }
    const at = now + this.#ports.chance() * LONGEST_DELAY_MS
    this.#due.set(root.text, Math.min(at, this.#due.get(root.text) ?? at))
  }

  /**
   * The first proof decides which owner and repository a name stands for, with each root for it: another one must not
   * believe what this one refuses, nor forget it when this one is removed. Returns the name that stands for another.
   */
  #keepIds({ ids, roots }: NonNullable<Checked['pinned']>): string | undefined {
    for (const root of roots) {
      if (Object.keys(ids).some((name) => !Object.hasOwn(this.#ports.load(root).ids, name))) {
        // Another proof may have been first, for one of the names.
        this.#ports.update(root, (state) =>
          contradictedId([{ state }], ids) === undefined ? { ...state, ids: { ...state.ids, ...ids } } : state,
        )
        this.#read()
      }
      // Before the next root takes ids that this one refuses.
      const moved = contradictedId([{ state: this.#ports.load(root) }], ids)
      if (moved !== undefined) return moved
    }
    return undefined
  }
}
