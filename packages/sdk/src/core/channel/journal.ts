/**
 * One transaction per wake-up: whatever changes while the events of one turn are handled is written together, and what
 * depends on it (sending, acknowledging) happens after. Before that nothing has left the process, so a crash loses
 * nothing that anybody was told.
 */
import { StaticError } from '@static/protocol'
import type { AgentStore, Change, ChannelId, InboxRecord, PoisonRecord } from '../../ports.ts'

/** How long what nobody waits for may wait for something else to be written with. */
const LATER_MS = 25

/** Something whose changes are gathered when they are written. */
export interface Writer {
  /** What has changed since the last time, in order. */
  drain(): readonly Change[]
  /**
   * `drain` has thrown: nothing of what had changed is written. It fails by itself, without the others, and touches
   * itself if there is something to write instead.
   */
  abandon(cause: unknown): void
  /** It is on disk now. */
  written(): void
}

/** Gathers changes and writes them. */
export class Journal {
  readonly #store: AgentStore
  readonly #failed: (error: StaticError) => void
  #writers = new Set<Writer>()
  readonly #changes: Change[] = []
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

  /** What was put aside of a channel, with everything so far. */
  poison(id: ChannelId): readonly PoisonRecord[] {
    this.flush()
    return this.#store.poison(id)
  }

  /** Writes now. */
  flush(): void {
    clearImmediate(this.#scheduled)
    clearTimeout(this.#later)
    this.#scheduled = undefined
    this.#later = undefined
    if (this.#failure) return
    const { changes, writers } = this.#gather()
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

  /** Asks everything that has changed. What cannot tell is left out, and all the others are written. */
  #gather(): { readonly changes: readonly Change[]; readonly writers: ReadonlySet<Writer> } {
    const changes = this.#changes.splice(0)
    const writers = new Set<Writer>()
    const abandoned = new Set<Writer>()
    // One that was abandoned is asked once more.
    while (this.#writers.size > 0) {
      const touched = this.#writers
      this.#writers = new Set()
      for (const writer of touched) {
        try {
          for (const change of writer.drain()) changes.push(change)
          writers.add(writer)
        } catch (cause) {
          if (abandoned.has(writer)) continue
          abandoned.add(writer)
          writer.abandon(cause)
        }
      }
    }
    for (const change of this.#changes.splice(0)) changes.push(change)
    clearImmediate(this.#scheduled)
    this.#scheduled = undefined
    return { changes, writers }
  }

  #schedule(): void {
    this.#scheduled ??= setImmediate(() => this.flush())
  }
}
