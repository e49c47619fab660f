/**
 * Payloads that the application has not settled. Each is delivered to one reader, in order. A payload is *settled* when
 * its reader asks for the next one, or by `settle`; if its reader stops first, it is delivered again. Payloads that are
 * not settled when the turn ends are written to disk, as ciphertext and message key. Beyond a page, unread payloads are
 * not kept in memory.
 *
 * A payload that was delivered before is marked `redelivered`, also after a crash: before a payload is delivered, the
 * disk states up to which index payloads may have been delivered. That bound runs ahead, so that it needs no extra
 * write.
 */
import { StaticError } from '@static/protocol'
import type { Change, ChannelId, InboxPlace, InboxRecord } from '../../ports/index.ts'
import {
  type Entry,
  type InboxHost,
  type InboxRows,
  type Incoming,
  insert,
  isBefore,
  NOTHING_STORED,
  OVERHEAD,
  PAYLOADS,
  placeOf,
  type StoredInbox,
  weightOf,
} from './inbox-entry.ts'
import { makeReader, type ReadOptions, type Waiting } from './inbox-reader.ts'
import { asStored } from './stored-message.ts'

/** The number of payloads kept in memory. */
const KEPT = 256
/** The limit of unsettled payloads, by their weight. */
const FULL_BYTES = 64 * 1024 * 1024
/** The limit while the owner removes a member. More than the free plan's room of a channel at the relay. */
const FULL_FOR_REMOVAL_BYTES = 8 * FULL_BYTES
const PAGE = 64
/** How far beyond the channel's position payloads may be delivered before the next write. */
const AHEAD = 256
const NOWHERE: InboxPlace = { index: 0, part: 0 }

/** The payloads of one channel. */
export class Inbox {
  readonly #id: ChannelId
  readonly #host: InboxHost
  readonly #rows: InboxRows
  /** In order of their indexes. */
  #ready: Entry[] = []
  #waiting: Waiting[] = []
  /** Arrived since the last write. */
  #fresh: Entry[] = []
  #changes: Change[] = []
  #weight: number
  /** Those in memory that are not settled, mostly in order. */
  readonly #unsettled = new Set<Entry>()
  /** No unsettled payload on disk has a lower index when the agent starts. */
  readonly #firstOnDisk: number
  /** The disk holds more payloads after this index. */
  #onDiskAfter: number | undefined
  /** The last index that was loaded into memory. */
  #last = 0
  /** The last one delivered to the application since the agent started, and an upper bound of indexes from before that. */
  #given: InboxPlace = NOWHERE
  #givenBefore: number
  /** The bound on the delivered index, as drained and as on disk. */
  #drainedBound: number
  #storedBound: number
  /** Whether the application has read since the agent started. */
  #isRead = false
  /** How often all iterators were ended. */
  #stops = 0
  readonly #stopListeners = new Set<() => void>()
  #isSealed = false
  #end: { readonly error: StaticError | undefined } | undefined

  constructor(
    id: ChannelId,
    host: InboxHost,
    { messages, bytes, first, givenUpTo }: StoredInbox = NOTHING_STORED,
    rows: InboxRows = PAYLOADS,
  ) {
    this.#id = id
    this.#host = host
    this.#rows = rows
    this.#weight = bytes + messages * OVERHEAD
    this.#firstOnDisk = first
    this.#givenBefore = givenUpTo
    this.#drainedBound = givenUpTo
    this.#storedBound = givenUpTo
    if (messages > 0) this.#onDiskAfter = 0
  }

  /** Whether no more payloads are accepted until one is settled. */
  get isFull(): boolean {
    return this.#weight >= FULL_BYTES
  }

  /** Whether it accepts no more, even for the removal of a member. */
  get isFullForRemoval(): boolean {
    return this.#weight >= FULL_FOR_REMOVAL_BYTES
  }

  /** Whether there is room again after it was full. */
  get hasRoom(): boolean {
    return this.#weight < FULL_BYTES / 2
  }

  /** Whether a reader gets a payload, or the end, without waiting for the relay. */
  get hasNext(): boolean {
    return this.#ready.length > 0 || this.#onDiskAfter !== undefined || this.#end !== undefined
  }

  /** Whether everything is settled. */
  get isEmpty(): boolean {
    return this.#weight === 0
  }

  /**
   * The last index before the first unsettled payload; `position` if there is none. Payloads up to `after` are left out.
   */
  settledUpTo(position: number, after: number): number {
    // Those on disk alone are all later than what was loaded.
    const onDisk = this.#onDiskAfter === undefined ? position : Math.max(this.#onDiskAfter, this.#firstOnDisk - 1)
    for (const { record } of this.#unsettled) if (record.index > after) return Math.min(record.index - 1, onDisk)
    return onDisk
  }

  /** Adds the payload, or all payloads of the pack, that has arrived. They stay together, in memory or on disk. */
  arrive(...arrived: readonly Incoming[]): void {
    const entries = arrived.map((incoming) => this.#hold(incoming))
    if (this.#onDiskAfter !== undefined || this.#ready.length >= KEPT) {
      this.#onDiskAfter ??= this.#last
      return
    }
    for (const entry of entries) {
      const { index } = entry.record
      this.#last = index
      this.#unsettled.add(entry)
      if (this.#ready.length > 0 || this.#waiting.length === 0 || index > this.#storedBound) this.#ready.push(entry)
      else this.#give(this.#waiting.shift(), entry)
    }
  }

  /** Takes back a payload that was put aside. */
  readmit(incoming: Incoming): void {
    const entry = this.#hold(incoming)
    const { index } = entry.record
    // Read from disk, in order with the others.
    if (this.#onDiskAfter !== undefined && index > this.#onDiskAfter) return
    // What arrives next may be left on disk, and is looked for after this index.
    this.#last = Math.max(this.#last, index)
    this.#unsettled.add(entry)
    this.#queue(entry)
  }

  /** Returns an iterator over the payloads. If it is ended early, its last payload is delivered again. */
  read<Item>(
    map: (entry: Entry) => Item,
    options: ReadOptions = {},
  ): AsyncIterableIterator<Item, undefined, undefined> {
    const stops = this.#stops
    const host = {
      isOpen: () => stops === this.#stops,
      take: (waiting: Waiting) => this.#take(waiting),
      leave: (reader: object) => this.#leave(reader),
      given: (entry: Entry) => this.given(entry),
      settle: (entry: Entry) => this.settle(entry),
      release: (entry: Entry) => this.release(entry),
    }
    return makeReader(host, map, options)
  }

  /** The application has received a payload that was read ahead. */
  given(entry: Entry): void {
    if (isBefore(this.#given, entry.record)) this.#given = placeOf(entry.record)
  }

  /** Nothing beyond this index was delivered before. After a crash, the disk has only an upper bound. */
  limitGivenBefore(index: number): void {
    this.#givenBefore = Math.min(this.#givenBefore, index)
  }

  /** Whether a payload may have been delivered before the agent started. */
  wasGiven(index: number): boolean {
    return index <= this.#givenBefore
  }

  /** A payload in memory that no reader has. */
  find(matches: (entry: Entry) => boolean): Entry | undefined {
    return this.#ready.find(matches)
  }

  /** Settles a payload: the application is done with it. */
  settle(entry: Entry): void {
    if (entry.settled) return
    this.#remove(entry)
    entry.record.messageKey.fill(0)
    if (!entry.stored) return
    this.#changes.push(this.#rows.drop(this.#id, entry.record))
    // If a crash undoes this, the payload is delivered again.
    this.#host.touchLater()
  }

  /** Returns a payload to the queue, so that it is delivered again. */
  release(entry: Entry): void {
    if (entry.settled || entry.holder === undefined) return
    entry.holder = undefined
    // A payload that was read ahead but not passed on was not delivered.
    entry.redelivered ||= !isBefore(this.#given, entry.record)
    this.#queue(entry)
  }

  /** Records the number of attempts that a handler has started with a payload. */
  count(entry: Entry, attempts: number): void {
    if (entry.settled) return
    entry.record = { ...entry.record, attempts }
    if (entry.stored) this.#changes.push(this.#rows.put(this.#id, entry.record))
    this.#host.touch()
  }

  /** Removes a payload that is stored elsewhere from now on. */
  remove(entry: Entry): void {
    this.#remove(entry)
  }

  /**
   * Settles what waits for a reader and is over, in memory and on disk, and returns it. Not in the middle of a turn,
   * because it reads from disk.
   */
  sweep(isOver: (incoming: Incoming) => boolean): readonly InboxRecord[] {
    const over = this.#ready.filter(isOver)
    for (const entry of over) this.settle(entry)
    return [...over.map(({ record }) => record), ...this.#sweepDisk(isOver)]
  }

  /** Calls back when the iterators are ended, until the returned function is called. */
  onStop(listener: () => void): () => void {
    this.#stopListeners.add(listener)
    return () => this.#stopListeners.delete(listener)
  }

  /** Ends all current iterators. */
  stop(): void {
    this.#stops++
    for (const waiting of this.#waiting.splice(0)) waiting.give(undefined)
    for (const listener of this.#stopListeners) listener()
  }

  /** No more payloads will arrive. Readers get the remaining ones, then the error or, without one, the end. */
  end(error: StaticError | undefined): void {
    if (this.#end) return
    this.#end = { error }
    // Readers for which a payload is ready get it once the bound on disk allows it.
    for (const waiting of this.#waiting.splice(this.#ready.length)) this.#finish(waiting)
  }

  /** The agent stops: delivers nothing more and writes the exact bound to disk. */
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
      entry.record = asStored(entry)
      changes.push(this.#rows.put(this.#id, entry.record))
    }
    this.#fresh = []
    return changes
  }

  /** Everything that was drained is on disk: serves the readers that waited for that. */
  written(): void {
    this.#storedBound = this.#drainedBound
    this.#serve()
  }

  get #lastGiven(): number {
    return Math.max(this.#given.index, this.#givenBefore)
  }

  #hold(incoming: Incoming): Entry {
    const entry: Entry = { ...incoming, stored: false, settled: false, holder: undefined }
    this.#weight += weightOf(entry)
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

  /** Delivers ready payloads to waiting readers. */
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
    // Even if it has ended already: readers must not take what was read so far for all there is.
    if (page instanceof StaticError) {
      this.#end = { error: page }
      return void (this.#onDiskAfter = undefined)
    }
    this.#onDiskAfter = page.at(-1)?.record.index
    this.#last = this.#onDiskAfter ?? this.#last
    this.#ready = page.map((incoming) => ({ ...incoming, stored: true, settled: false, holder: undefined }))
    for (const entry of this.#ready) this.#unsettled.add(entry)
    if (page.length < PAGE) this.#onDiskAfter = undefined
  }

  #sweepDisk(isOver: (incoming: Incoming) => boolean): readonly InboxRecord[] {
    const start = this.#onDiskAfter
    const over: InboxRecord[] = []
    let firstKept: number | undefined
    for (let after = start; after !== undefined;) {
      const page = this.#host.page(after, PAGE)
      // The disk cannot be read, or a reader waited for the write and has loaded some of these.
      if (page instanceof StaticError || this.#onDiskAfter !== start) return over
      for (const incoming of page) {
        if (isOver(incoming)) over.push(this.#dropStored(incoming))
        else firstKept ??= incoming.record.index
      }
      after = page.length < PAGE ? undefined : page.at(-1)?.record.index
    }
    this.#onDiskAfter = firstKept === undefined ? undefined : firstKept - 1
    return over
  }

  #dropStored(incoming: Incoming): InboxRecord {
    this.#weight -= weightOf(incoming)
    this.#changes.push(this.#rows.drop(this.#id, incoming.record))
    this.#host.touchLater()
    return incoming.record
  }

  /** Queues a payload at its place. */
  #queue(entry: Entry): void {
    if (this.#isSealed) return
    insert(this.#ready, entry)
    this.#serve()
  }

  #remove(entry: Entry): void {
    if (entry.settled) return
    entry.settled = true
    this.#unsettled.delete(entry)
    this.#weight -= weightOf(entry)
    if (entry.holder === undefined) this.#ready = this.#ready.filter((other) => other !== entry)
    entry.holder = undefined
  }

  #leave(reader: object): readonly Waiting[] {
    const left = this.#waiting.filter((waiting) => waiting.reader === reader)
    this.#waiting = this.#waiting.filter((waiting) => waiting.reader !== reader)
    return left
  }

  #finish(waiting: Waiting): void {
    if (this.#end?.error) waiting.fail(this.#end.error)
    else waiting.give(undefined)
  }
}
