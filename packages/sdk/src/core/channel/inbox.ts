/**
 * Payloads that the application has not settled: given to whoever asks, in order, each to one. A payload is *settled*
 * when its reader asks for the next one, or by `settle`. One whose reader leaves comes again. What is not settled when
 * the turn ends goes to disk, as ciphertext and its own key; what many have not been asked for is not kept in memory.
 *
 * A payload that was given before is marked (`redelivered`), also after a crash: before one is given, the disk says up
 * to which index payloads may have been given. That bound runs ahead, so that it costs no write of its own.
 */
import type { StaticError } from '@static/protocol'
import type { Change, ChannelId, InboxRecord } from '../../ports.ts'

/** A payload on its way to the application. */
export interface Incoming {
  readonly record: InboxRecord
  readonly payload: Uint8Array
  /** It may have been given before. */
  readonly redelivered: boolean
}

/** A payload in the inbox. */
export interface Entry extends Incoming {
  record: InboxRecord
  redelivered: boolean
  /** Whether it is on disk, or will be with the changes that were drained last. */
  stored: boolean
  settled: boolean
  /** Who has it; undefined while it waits. */
  holder: object | undefined
}

/** Who waits for a payload. */
interface Waiting {
  /** Whose it is. */
  readonly reader: object
  give(entry: Entry | undefined): void
  fail(error: StaticError): void
}

/** What an inbox asks of its surroundings. */
export interface InboxHost {
  /** Something is to be written. */
  touch(): void
  /** The channel's record, too. */
  touchRecord(): void
  /** Rows on disk after an index, opened; everything that was to be written is. */
  page(after: number, limit: number): readonly Incoming[]
}

/** What of an inbox is on disk when it is opened. */
export interface StoredInbox {
  /** Bytes of ciphertext. */
  readonly bytes: number
  readonly givenUpTo: number
}

/** How a reader gets payloads. */
export interface ReadOptions {
  /** The payloads count as given when `given` is called, not before: whoever reads ahead may never pass them on. */
  readonly ahead?: boolean
}

/** What is kept in memory. */
const KEPT = 256
/** What may wait on disk, in bytes of ciphertext. */
const FULL_BYTES = 64 * 1024 * 1024
const PAGE = 64
/** How many indexes beyond the channel's position may be given before the next write. */
const AHEAD = 256

/** The payloads of one channel. */
export class Inbox {
  readonly #id: ChannelId
  readonly #host: InboxHost
  /** In order of their indexes. */
  #ready: Entry[] = []
  #waiting: Waiting[] = []
  /** Came since the last time that changes were written. */
  #fresh: Entry[] = []
  #changes: Change[] = []
  #bytes: number
  /** After this index there are more on disk than in memory. */
  #onDiskAfter: number | undefined
  /** The last index that was taken into memory. */
  #last = 0
  /** The last index that was given to the application in this life of the agent, and at most before. */
  #given = 0
  #givenBefore: number
  /** The bound on it, as drained and as on disk. */
  #drainedBound: number
  #storedBound: number
  /** Whether somebody reads in this life of the agent. */
  #isRead = false
  /** How often the iterators were ended. */
  #stops = 0
  readonly #stopListeners = new Set<() => void>()
  #isSealed = false
  #end: { readonly error: StaticError | undefined } | undefined

  constructor(id: ChannelId, host: InboxHost, { bytes, givenUpTo }: StoredInbox = { bytes: 0, givenUpTo: 0 }) {
    this.#id = id
    this.#host = host
    this.#bytes = bytes
    this.#givenBefore = givenUpTo
    this.#drainedBound = givenUpTo
    this.#storedBound = givenUpTo
    if (bytes > 0) this.#onDiskAfter = 0
  }

  /** Whether nothing more may come in until something is settled. */
  get isFull(): boolean {
    return this.#bytes >= FULL_BYTES
  }

  /** Whether there is room again after it was full. */
  get hasRoom(): boolean {
    return this.#bytes < FULL_BYTES / 2
  }

  /** Whether a payload is there for whoever asks now. */
  get hasNext(): boolean {
    return this.#ready.length > 0 || this.#onDiskAfter !== undefined
  }

  /** Whether everything is settled. */
  get isEmpty(): boolean {
    return this.#bytes === 0
  }

  /** A payload has come. */
  arrive(incoming: Incoming): void {
    const entry = this.#hold(incoming)
    const { index } = entry.record
    if (this.#onDiskAfter !== undefined || this.#ready.length >= KEPT) {
      this.#onDiskAfter ??= this.#last
      return
    }
    this.#last = index
    if (this.#ready.length > 0 || this.#waiting.length === 0 || index > this.#storedBound) {
      this.#ready.push(entry)
      return
    }
    this.#give(this.#waiting.shift(), entry)
  }

  /** A payload that was put aside comes again. */
  readmit(incoming: Incoming): void {
    const entry = this.#hold(incoming)
    // Otherwise it is read from disk with those before and after it.
    if (this.#onDiskAfter === undefined || entry.record.index <= this.#onDiskAfter) this.#queue(entry)
  }

  /** An iterator over the payloads. What it has given last comes again when it is left. */
  read<Item>(
    map: (entry: Entry) => Item,
    { ahead = false }: ReadOptions = {},
  ): AsyncIterableIterator<Item, undefined, undefined> {
    const stops = this.#stops
    let given: Entry | undefined
    let done = false
    const end = { done: true, value: undefined } as const
    const settle = (): void => {
      if (given?.holder === iterator) this.settle(given)
      given = undefined
    }
    const iterator: AsyncIterableIterator<Item, undefined, undefined> = {
      next: () => {
        settle()
        if (done || stops !== this.#stops) return Promise.resolve(end)
        const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<Item, undefined>>()
        const give = (entry: Entry | undefined): void => {
          // What was asked for at once with this one and came before it.
          settle()
          given = entry
          done = entry === undefined
          if (entry && !ahead) this.given(entry)
          resolve(entry ? { done: false, value: map(entry) } : end)
        }
        this.#take({ reader: iterator, give, fail: reject })
        return promise
      },
      return: () => {
        if (given?.holder === iterator) this.release(given)
        given = undefined
        done = true
        const left = this.#waiting.filter(({ reader }) => reader === iterator)
        this.#waiting = this.#waiting.filter(({ reader }) => reader !== iterator)
        for (const waiting of left) waiting.give(undefined)
        return Promise.resolve(end)
      },
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }

  /** The application has a payload that was read ahead. */
  given(entry: Entry): void {
    this.#given = Math.max(this.#given, entry.record.index)
  }

  /** Nothing beyond this index can have been given before: after a crash the disk only has a bound. */
  limitGivenBefore(index: number): void {
    this.#givenBefore = Math.min(this.#givenBefore, index)
  }

  /** The application is done with a payload. */
  settle(entry: Entry): void {
    if (entry.settled) return
    this.#remove(entry)
    entry.record.messageKey.fill(0)
    if (!entry.stored) return
    this.#changes.push({ type: 'dropInbox', id: this.#id, index: entry.record.index })
    this.#host.touch()
  }

  /** A payload that its holder gives back comes again. */
  release(entry: Entry): void {
    if (entry.settled || entry.holder === undefined) return
    entry.holder = undefined
    // What was read ahead and not passed on was not given.
    entry.redelivered ||= entry.record.index <= this.#given
    this.#queue(entry)
  }

  /** A handler has begun with a payload so often. */
  count(entry: Entry, attempts: number): void {
    if (entry.settled) return
    entry.record = { ...entry.record, attempts }
    if (entry.stored) this.#changes.push({ type: 'putInbox', id: this.#id, record: entry.record })
    this.#host.touch()
  }

  /** A payload is stored elsewhere from now on. */
  remove(entry: Entry): void {
    this.#remove(entry)
  }

  /** Calls back when the iterators are ended, until the returned function is called. */
  onStop(listener: () => void): () => void {
    this.#stopListeners.add(listener)
    return () => this.#stopListeners.delete(listener)
  }

  /** Ends the iterators that there are. */
  stop(): void {
    this.#stops++
    for (const waiting of this.#waiting.splice(0)) waiting.give(undefined)
    for (const listener of this.#stopListeners) listener()
  }

  /** Nothing more will come. Readers get what there is, then the error, or just the end. */
  end(error: StaticError | undefined): void {
    if (this.#end) return
    this.#end = { error }
    // Those for whom a payload is there get it when the disk says so.
    for (const waiting of this.#waiting.splice(this.#ready.length)) this.#finish(waiting)
  }

  /** The agent stops: nothing is given any more, and the disk is told exactly what was. */
  seal(): void {
    if (this.#isSealed) return
    this.#isSealed = true
    this.#ready = []
    this.#onDiskAfter = undefined
    for (const waiting of this.#waiting.splice(0)) this.#finish(waiting)
    for (const listener of this.#stopListeners) listener()
    if (this.#storedBound !== this.#lastGiven) this.#host.touchRecord()
  }

  /** The bound for the channel's record, which is at this index. */
  boundAt(index: number): number {
    const given = this.#lastGiven
    this.#drainedBound = this.#isRead && !this.#isSealed ? Math.max(index + AHEAD, given) : given
    return this.#drainedBound
  }

  /** What has changed since the last time. */
  drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    for (const entry of this.#fresh) {
      if (entry.settled) continue
      entry.stored = true
      changes.push({ type: 'putInbox', id: this.#id, record: entry.record })
    }
    this.#fresh = []
    return changes
  }

  /** What was drained is on disk: whoever waits for that gets its payload. */
  written(): void {
    this.#storedBound = this.#drainedBound
    this.#serve()
  }

  get #lastGiven(): number {
    return Math.max(this.#given, this.#givenBefore)
  }

  #hold(incoming: Incoming): Entry {
    const entry: Entry = { ...incoming, stored: false, settled: false, holder: undefined }
    this.#bytes += entry.record.ciphertext.length
    this.#fresh.push(entry)
    this.#host.touch()
    return entry
  }

  #take(waiting: Waiting): void {
    if (!this.#isRead) {
      this.#isRead = true
      this.#host.touchRecord()
    }
    if (this.#ready.length === 0) this.#refill()
    const [next] = this.#ready
    if (next === undefined && this.#end) this.#finish(waiting)
    else if (next === undefined || this.#waiting.length > 0) this.#waiting.push(waiting)
    else if (next.record.index <= this.#storedBound) this.#give(waiting, this.#ready.shift())
    else {
      this.#waiting.push(waiting)
      this.#host.touchRecord()
    }
  }

  /** Gives what is ready to those who wait. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      if (this.#ready.length === 0) this.#refill()
      const [next] = this.#ready
      if (next === undefined) break
      if (next.record.index > this.#storedBound) return this.#host.touchRecord()
      this.#give(this.#waiting.shift(), this.#ready.shift())
    }
    if (this.#end) for (const waiting of this.#waiting.splice(0)) this.#finish(waiting)
  }

  #give(waiting: Waiting | undefined, entry: Entry | undefined): void {
    if (entry) entry.holder = waiting?.reader
    waiting?.give(entry)
  }

  #refill(): void {
    if (this.#onDiskAfter === undefined) return
    const page = this.#host.page(this.#onDiskAfter, PAGE)
    this.#onDiskAfter = page.at(-1)?.record.index
    this.#last = this.#onDiskAfter ?? this.#last
    this.#ready = page.map((incoming) => ({ ...incoming, stored: true, settled: false, holder: undefined }))
    if (page.length < PAGE) this.#onDiskAfter = undefined
  }

  /** Puts a payload where its index belongs. */
  #queue(entry: Entry): void {
    if (this.#isSealed) return
    const after = this.#ready.findIndex(({ record }) => record.index > entry.record.index)
    this.#ready.splice(after < 0 ? this.#ready.length : after, 0, entry)
    this.#serve()
  }

  #remove(entry: Entry): void {
    if (entry.settled) return
    entry.settled = true
    this.#bytes -= entry.record.ciphertext.length
    if (entry.holder === undefined) this.#ready = this.#ready.filter((other) => other !== entry)
    entry.holder = undefined
  }

  #finish(waiting: Waiting): void {
    if (this.#end?.error) waiting.fail(this.#end.error)
    else waiting.give(undefined)
  }
}
