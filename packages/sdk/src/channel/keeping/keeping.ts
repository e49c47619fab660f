/**
 * Whether an agent keeps a history (kept-messages.ts), and for how many days. That is a rule of the agent, stored in its
 * database: every program that opens the agent follows it, so the history has no holes. Without the rule nothing is
 * kept, and no timer runs for it.
 */
import { StaticError } from '@static/protocol'
import type { Journal } from '../journal.ts'
import type { Time } from '../../ports/index.ts'

/** The rule as an option: days to keep messages, or false to keep none and erase what is kept. */
export type HistoryOption = { readonly days: number } | false

/** The kept messages of a channel. */
interface Kept {
  erase(): Promise<void>
}

interface SweptKept extends Kept {
  sweep(): Promise<void>
}

const DAY_MS = 24 * 3600 * 1000
const SWEEP_MS = 3600 * 1000

interface KeepingContext {
  readonly journal: Pick<Journal, 'add' | 'written' | 'checkpoint'>
  /** The agent's own name, for the messages that it sends. */
  readonly identity: Uint8Array
  now(): Time
  /** The histories of all channels. */
  all(): Iterable<Kept>
}

/** The rule of one agent. */
export class Keeping {
  readonly identity: Uint8Array
  /** Resolves when the messages are erased that a rule without days leaves behind. */
  readonly ready: Promise<void>
  readonly #context: KeepingContext
  /** Undefined: nothing is kept. */
  readonly days: number | undefined
  readonly #due = new Set<SweptKept>()
  #isSweeping = false
  #sweepAt: Time = -Infinity

  /** `stored`: the rule in the database; see `putKeeping`. `wanted`: undefined for the stored one. */
  constructor(context: KeepingContext, stored: number | undefined, wanted: HistoryOption | undefined) {
    this.#context = context
    this.identity = context.identity
    const days = wanted === undefined ? stored : wanted && wanted.days
    this.days = days || undefined
    const { journal } = context
    const isLeft = stored === 0 || (stored !== undefined && this.days === undefined)
    if (isLeft) {
      if (stored !== 0) journal.add({ type: 'putKeeping', days: 0 })
      // Later, because the channels do not exist yet.
      this.ready = Promise.resolve().then(() => this.#finish())
      // The agent may be closed before.
      this.ready.catch(() => {})
      return
    }
    if (this.days !== stored) journal.add({ type: 'putKeeping', days: this.days })
    this.ready = Promise.resolve()
  }

  get isOn(): boolean {
    return this.days !== undefined
  }

  /** Messages that were kept before this time are over; undefined if none are kept. */
  get since(): Time | undefined {
    return this.days === undefined ? undefined : this.#context.now() - this.days * DAY_MS
  }

  /** Called again and again. Sweeps at the start, because the agent may have been off for days, and every hour. */
  tick(now: Time, channels: Iterable<{ readonly kept: SweptKept }>): void {
    if (this.days === undefined || now < this.#sweepAt) return
    this.#sweepAt = now + SWEEP_MS
    for (const { kept } of channels) this.sweepSoon(kept)
  }

  /** Sweeps a channel when it is its turn. */
  sweepSoon(kept: SweptKept): void {
    this.#due.add(kept)
    if (this.#isSweeping) return
    this.#isSweeping = true
    void this.#sweep().finally(() => (this.#isSweeping = false))
  }

  /** Deletes the messages of all channels, so that they are not readable in the files either. */
  async eraseAll(): Promise<void> {
    await this.erase(...this.#context.all())
  }

  /** The same for some channels. */
  async erase(...channels: readonly Kept[]): Promise<void> {
    for (const kept of channels) await kept.erase()
    this.#context.journal.checkpoint()
  }

  /** The rule has ended: erases what is left, then forgets the rule. */
  async #finish(): Promise<void> {
    await this.eraseAll()
    this.#context.journal.add({ type: 'putKeeping', days: this.days })
    await this.#context.journal.written()
  }

  async #sweep(): Promise<void> {
    for (const kept of this.#due) {
      // First, because it may be due again in the meantime.
      this.#due.delete(kept)
      try {
        await kept.sweep()
      } catch (error) {
        // The rows of one channel cannot be read, or the agent is closed: reading them says why.
        if (StaticError.from(error).code === 'closed') return
      }
    }
  }
}
