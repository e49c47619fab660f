/**
 * Writes one transaction per wake-up: all changes made while the events of one turn are handled are written together,
 * and actions that depend on them (sending, acknowledging) happen afterwards. Nothing leaves the process before that,
 * so a crash loses nothing that was already reported.
 */
import { StaticError } from '@static/protocol'
import type { AgentStore, Change, ChannelId, InboxRecord, PoisonRecord } from '../../ports.ts'

/** How long a deferred change may wait for a transaction to join. */
const LATER_MS = 25

/** A source of changes, drained when they are written. */
export interface Writer {
  /** Returns the changes since the last call, in order. */
  drain(): readonly Change[]
  /**
   * Called when `drain` has thrown, so none of its changes are written. The writer fails alone, and touches itself if
   * it has something to write instead.
   */
  abandon(cause: unknown): void
  /** Called when the drained changes are on disk. */
  written(): void
}

/** Gathers changes and writes them. */
export class Journal {
  readonly #store: AgentStore
  readonly #failed: (error: StaticError) => void
  #writers = new Set<Writer>()
  readonly #changes: Change[] = []
  #waiting: PromiseWithResolvers<void>[] = []
  /** What is left to do in this turn. */
  #endings: (() => void)[] = []
  #scheduled: NodeJS.Immediate | undefined
  #later: NodeJS.Timeout | undefined
  #failure: StaticError | undefined

  /** Calls `failed` once when the store cannot write: the agent must stop, because memory is ahead of the disk. */
  constructor(store: AgentStore, failed: (error: StaticError) => void) {
    this.#store = store
    this.#failed = failed
    store.onFailure((error) => this.#fail(error))
  }

  /** Marks a writer as changed, so that it is drained at the end of the turn. */
  touch(writer: Writer): void {
    this.#writers.add(writer)
    this.#schedule()
  }

  /** The same for a change that may be written later, because a crash may undo it. */
  touchLater(writer: Writer): void {
    this.#writers.add(writer)
    this.#later ??= setTimeout(() => this.flush(), LATER_MS)
  }

  /** Calls back at the end of the turn, before it is written. */
  atEnd(ending: () => void): void {
    this.#endings.push(ending)
    this.#schedule()
  }

  /** Adds changes that belong to no writer. */
  add(...changes: Change[]): void {
    for (const change of changes) this.#changes.push(change)
    this.#schedule()
  }

  /** Resolves once everything so far is on disk. */
  async written(): Promise<void> {
    if (this.#failure) throw this.#failure
    const waiting = Promise.withResolvers<void>()
    this.#waiting.push(waiting)
    this.#schedule()
    await waiting.promise
  }

  /**
   * Writes pending changes, then returns the unsettled messages on disk after an index. Throws if they cannot be read;
   * by itself, that does not stop the agent.
   */
  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.#flushToRead()
    return this.#store.inbox(id, after, limit)
  }

  /** The same for the messages of a channel that were put aside. */
  poison(id: ChannelId): readonly PoisonRecord[] {
    this.#flushToRead()
    return this.#store.poison(id)
  }

  /** Writes pending changes, then returns the open requests on disk after an index. */
  requests(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.#write()
    return this.#store.requests(id, after, limit)
  }

  /** The unread answers on disk. Only for a channel that is being loaded and has nothing to write. */
  answers(id: ChannelId): readonly InboxRecord[] {
    return this.#store.answers(id)
  }

  /** Ends the turn and writes it now. */
  flush(): void {
    if (!this.#failure) for (const ending of this.#endings.splice(0)) ending()
    this.#write()
  }

  /** Writes what has changed so far. The turn may go on. */
  #write(): void {
    clearImmediate(this.#scheduled)
    clearTimeout(this.#later)
    this.#scheduled = undefined
    this.#later = undefined
    if (this.#failure) return
    const { changes, writers } = this.#gather()
    if (this.#endings.length > 0) this.#schedule()
    try {
      this.#store.write(changes)
    } catch (error) {
      this.#fail(error)
      return
    }
    const waiting = this.#waiting
    this.#waiting = []
    for (const writer of writers) writer.written()
    for (const { resolve } of waiting) resolve()
  }

  /** Drains all changed writers. One that throws is left out; all others are written. */
  #gather(): { readonly changes: readonly Change[]; readonly writers: ReadonlySet<Writer> } {
    const changes = this.#changes.splice(0)
    const writers = new Set<Writer>()
    const abandoned = new Set<Writer>()
    // An abandoned writer is drained once more.
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

  #flushToRead(): void {
    this.#write()
    if (this.#failure) throw this.#failure
  }

  #fail(error: unknown): void {
    if (this.#failure) return
    this.#failure = StaticError.from(error)
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
    this.#failed(this.#failure)
  }

  #schedule(): void {
    this.#scheduled ??= setImmediate(() => this.flush())
  }
}
