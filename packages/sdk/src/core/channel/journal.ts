/**
 * One transaction per wake-up: whatever changes while the events of one turn are handled is written together, and what
 * depends on it (sending, acknowledging) happens after. Before that nothing has left the process, so a crash loses
 * nothing that anybody was told.
 */
import { StaticError } from '@static/protocol'
import type { AgentStore, Change, ChannelId, InboxRecord } from '../../ports.ts'

/** How long what nobody waits for may wait for something else to be written with. */
const LATER_MS = 25

/** Something whose changes are gathered when they are written. */
export interface Writer {
  /** What has changed since the last time, in order. */
  drain(): readonly Change[]
  /** It is on disk now. */
  written(): void
}

/** Gathers changes and writes them. */
export class Journal {
  readonly #store: AgentStore
  readonly #failed: (error: StaticError) => void
  #writers = new Set<Writer>()
  #changes: Change[] = []
  #waiting: PromiseWithResolvers<void>[] = []
  #scheduled: NodeJS.Immediate | undefined
  #later: NodeJS.Timeout | undefined
  #failure: StaticError | undefined

  /** `failed` is told once when the store cannot write: the agent must stop, because memory is ahead of the disk. */
  constructor(store: AgentStore, failed: (error: StaticError) => void) {
    this.#store = store
    this.#failed = failed
  }

  /** Something has changed there: it is asked for its changes at the end of the turn. */
  touch(writer: Writer): void {
    this.#writers.add(writer)
    this.#schedule()
  }

  /** The same for a change that nobody waits for, and that a crash may undo. */
  touchLater(writer: Writer): void {
    this.#writers.add(writer)
    this.#later ??= setTimeout(() => this.flush(), LATER_MS)
  }

  /** Changes of no one's. */
  add(...changes: Change[]): void {
    for (const change of changes) this.#changes.push(change)
    this.#schedule()
  }

  /** Fulfilled once everything so far is on disk. */
  async written(): Promise<void> {
    if (this.#failure) throw this.#failure
    const waiting = Promise.withResolvers<void>()
    this.#waiting.push(waiting)
    this.#schedule()
    await waiting.promise
  }

  /** What waits on disk for the application, after an index, with everything that has come so far. */
  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.flush()
    return this.#store.inbox(id, after, limit)
  }

  /** Writes now. */
  flush(): void {
    clearImmediate(this.#scheduled)
    clearTimeout(this.#later)
    this.#scheduled = undefined
    this.#later = undefined
    if (this.#failure) return
    const changes = this.#changes
    this.#changes = []
    const writers = this.#writers
    this.#writers = new Set()
    for (const writer of writers) for (const change of writer.drain()) changes.push(change)
    const waiting = this.#waiting
    this.#waiting = []
    try {
      this.#store.write(changes)
    } catch (error) {
      this.#failure = StaticError.from(error)
      for (const { reject } of waiting) reject(this.#failure)
      this.#failed(this.#failure)
      return
    }
    for (const writer of writers) writer.written()
    for (const { resolve } of waiting) resolve()
  }

  #schedule(): void {
    this.#scheduled ??= setImmediate(() => this.flush())
  }
}
