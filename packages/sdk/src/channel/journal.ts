/**
 * Writes one transaction per wake-up (to the ring file of store/ring, which the database follows): all changes made
 * while one turn's events are handled are written together. Actions that depend on them (sending, acknowledging) happen
 * afterwards. Nothing leaves the process before that, so a crash loses nothing already reported.
 */
import { cancelTimer, cancelTurn, nextTurn, startTimer, type Timer, type Turn } from '#platform/turn'
import { StaticError } from '@static/protocol'
import {
  type AgentStore,
  type Change,
  type ChannelId,
  type InboxRecord,
  type KeptRecord,
  type KeptSize,
  type PoisonRecord,
  RefusedChange,
  type UploadPart,
} from '../ports/index.ts'

/** How long a deferred change may wait for a transaction to join. */
const LATER_MS = 25

/** A source of changes, drained when the journal writes. */
export interface Writer {
  /** Returns the changes since the last call, in order. */
  drain(): readonly Change[]
  /**
   * Called when `drain` threw or the store refused one of its changes: none of them are written. Only this writer
   * fails, and it touches itself if it has something to write instead.
   */
  abandon(cause: unknown): void
  /** Called when the drained changes are on disk. */
  written(): void
}

/** The changes that a turn writes. */
class GatheredTurn {
  /** Changes that belong to no writer: those of the turn, and those made while draining its writers. */
  readonly #before: readonly Change[]
  readonly #after: Change[] = []
  readonly #drained = new Map<Writer, Change[]>()
  readonly #abandoned = new Set<Writer>()

  constructor(before: readonly Change[]) {
    this.#before = before
  }

  /** All changes, in the order they are written. */
  get changes(): readonly Change[] {
    const all = [...this.#before]
    for (const changes of this.#drained.values()) for (const change of changes) all.push(change)
    for (const change of this.#after) all.push(change)
    return all
  }

  /** The writers whose changes are written. */
  get writers(): Iterable<Writer> {
    return this.#drained.keys()
  }

  writerOf(change: Change): Writer | undefined {
    for (const [writer, changes] of this.#drained) if (changes.includes(change)) return writer
    return undefined
  }

  add(changes: readonly Change[]): void {
    for (const change of changes) this.#after.push(change)
  }

  drain(writer: Writer): void {
    this.#drained.set(writer, [...(this.#drained.get(writer) ?? []), ...writer.drain()])
  }

  /** Leaves a writer out and lets it write something else instead, but only once. */
  abandon(writer: Writer, cause: unknown): void {
    this.#drained.delete(writer)
    if (this.#abandoned.has(writer)) return
    this.#abandoned.add(writer)
    writer.abandon(cause)
  }
}

/** Gathers changes and writes them. */
export class Journal {
  readonly #store: AgentStore
  readonly #failed: (error: StaticError) => void
  #writers = new Set<Writer>()
  readonly #changes: Change[] = []
  #waiting: PromiseWithResolvers<void>[] = []
  /** Callbacks left to run in this turn. */
  #endings: (() => void)[] = []
  #scheduled: Turn | undefined
  #later: Timer | undefined
  #failure: StaticError | undefined

  /** Calls `failed` once if the store cannot write: memory is then ahead of the disk, so the agent must stop. */
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

  /** Like `touch`, for a change that can wait, because a crash may undo it. */
  touchLater(writer: Writer): void {
    this.#writers.add(writer)
    this.#later ??= startTimer(LATER_MS, () => this.flush())
  }

  /** Calls back at the end of the turn, before the write. */
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
   * Writes pending changes, then returns the unsettled messages on disk after an index. Throws if they cannot be read,
   * which by itself does not stop the agent.
   */
  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.#flushToRead()
    return this.#store.inbox(id, after, limit)
  }

  /** Like `inbox`, for the messages put aside in a channel. */
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

  /** Writes pending changes, then returns the hashes of the parts of a file. */
  fileDigests(id: ChannelId, index: number): Uint8Array | undefined {
    this.#flushToRead()
    return this.#store.fileDigests(id, index)
  }

  /** Writes pending changes, then returns how the parts of an upload are encrypted. */
  uploadParts(id: ChannelId, fileId: Uint8Array): readonly UploadPart[] {
    this.#flushToRead()
    return this.#store.uploadParts(id, fileId)
  }

  /** Writes pending changes, then returns kept messages before an index, the newest first. */
  kept(id: ChannelId, before: number, limit: number): readonly KeptRecord[] {
    this.#flushToRead()
    return this.#store.kept(id, before, limit)
  }

  /** The same without their content. */
  keptSizes(id: ChannelId, before: number, limit: number): readonly KeptSize[] {
    this.#flushToRead()
    return this.#store.keptSizes(id, before, limit)
  }

  /** Writes pending changes, then removes deleted data from the files. */
  checkpoint(): void {
    this.#flushToRead()
    this.#store.checkpoint()
  }

  /** Ends the turn and writes it now. */
  flush(): void {
    if (!this.#failure) for (const ending of this.#endings.splice(0)) ending()
    this.#write()
  }

  /** Writes all changes so far. The turn may go on. */
  #write(): void {
    cancelTurn(this.#scheduled)
    cancelTimer(this.#later)
    this.#scheduled = undefined
    this.#later = undefined
    if (this.#failure) return
    const turn = new GatheredTurn(this.#changes.splice(0))
    this.#gather(turn)
    if (this.#endings.length > 0) this.#schedule()
    try {
      this.#writeTurn(turn)
    } catch (error) {
      this.#fail(error)
      return
    }
    const waiting = this.#waiting
    this.#waiting = []
    for (const writer of turn.writers) writer.written()
    for (const { resolve } of waiting) resolve()
  }

  /** Writes a turn, without the writers whose changes the store refuses. */
  #writeTurn(turn: GatheredTurn): void {
    for (;;) {
      try {
        return this.#store.write(turn.changes)
      } catch (error) {
        const writer = error instanceof RefusedChange ? turn.writerOf(error.change) : undefined
        if (!writer) throw error
        turn.abandon(writer, error)
        this.#gather(turn)
      }
    }
  }

  /** Drains all changed writers. Leaves out any that throws. */
  #gather(turn: GatheredTurn): void {
    // An abandoned writer is drained once more.
    while (this.#writers.size > 0) {
      const touched = this.#writers
      this.#writers = new Set()
      for (const writer of touched) {
        try {
          turn.drain(writer)
        } catch (cause) {
          turn.abandon(writer, cause)
        }
      }
    }
    turn.add(this.#changes.splice(0))
    cancelTurn(this.#scheduled)
    this.#scheduled = undefined
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
    this.#scheduled ??= nextTurn(() => this.flush())
  }
}
