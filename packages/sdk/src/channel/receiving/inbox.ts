/**
 * Payloads that the application has not settled. Each is delivered to one reader, in order. A payload is *settled* when
 * its reader asks for the next one, or by `settle`; if its reader stops first, it is delivered again. Payloads that are
 * not settled when the turn ends are written to disk, as ciphertext and message key. Beyond a page, unread payloads are
 * not kept in memory.
 *
 * A payload that was delivered before is marked `redelivered`, even after a crash: before delivery, the disk records up
 * to which index payloads may have been delivered. That bound runs ahead, so it needs no extra write.
 */
import { StaticError } from '@static/protocol'
import type { Change, ChannelId, InboxPlace, InboxRecord } from '../../ports/index.ts'
import type { AgentChannel } from '../channel.ts'
import { Part } from '../part.ts'
import type { Content } from './content.ts'
import { asStored, bytesOf } from './stored-message.ts'

/** A payload on its way to the application. */
export interface Incoming extends Content {
  /** Payloads of a pack have neither ciphertext nor key until they are stored: most are settled first. */
  readonly record: InboxRecord
  /** Whether it may have been delivered before. */
  readonly redelivered: boolean
}

/** A payload in the inbox. */
export interface InboxEntry extends Incoming {
  record: InboxRecord
  redelivered: boolean
  /** Whether it is on disk, or will be with the changes drained last. */
  stored: boolean
  settled: boolean
  /** The reader that has it; undefined while it is queued. */
  holder: object | undefined
}

/** The table of an inbox on disk (inbox-table.ts). */
export interface InboxTable {
  put(id: ChannelId, record: InboxRecord): Change
  drop(id: ChannelId, place: InboxPlace): Change
  /** What is kept of a payload that the application has settled; written with that. */
  keep(entry: Incoming): readonly Change[]
  /**
   * Writes pending changes, then returns decrypted rows on disk after an index, never only part of a pack. After an
   * error, no more may arrive.
   */
  page(after: number, limit: number): readonly Incoming[] | StaticError
}

/** The state of an inbox on disk when it is opened. */
export interface StoredInbox {
  readonly messages: number
  /** Bytes of ciphertext. */
  readonly bytes: number
  /** The index of the first payload; 0 if there is none. */
  readonly first: number
  readonly givenUpTo: number
}

/** A reader waiting for a payload. */
interface WaitingReader {
  /** The iterator that asked. */
  readonly reader: object
  give(entry: InboxEntry | undefined): void
  fail(error: StaticError): void
}

export interface ReadOptions {
  /** Payloads count as delivered only when `given` is called: a reader that reads ahead may never pass them on. */
  readonly ahead?: boolean
}

/** The number of payloads kept in memory. */
const KEPT = 256
/** The limit of unsettled payloads, by weight. */
const FULL_BYTES = 64 * 1024 * 1024
/** The limit while the owner removes a member. More than the free plan's limit for a channel at the relay. */
const FULL_FOR_REMOVAL_BYTES = 8 * FULL_BYTES
const PAGE = 64
/** How far beyond the channel's position payloads may be delivered before the next write. */
const AHEAD = 256
const NOWHERE: InboxPlace = { index: 0, part: 0 }

/** The payloads of one channel. */
export class Inbox extends Part {
  readonly #channel: Pick<AgentChannel, 'id' | 'turn'>
  readonly #table: InboxTable
  /** In order of their indexes. */
  #ready: InboxEntry[] = []
  #waiting: WaitingReader[] = []
  /** Payloads that arrived since the last write. */
  #fresh: InboxEntry[] = []
  #changes: Change[] = []
  #weight: number
  /** The unsettled payloads in memory, mostly in order. */
  readonly #unsettled = new Set<InboxEntry>()
  /** At the start of the agent, no unsettled payload on disk has a lower index. */
  readonly #firstOnDisk: number
  /** The disk holds more payloads after this index. */
  #onDiskAfter: number | undefined
  /** The last index that was loaded into memory. */
  #last = 0
  /** The last payload delivered to the application since the agent started, and an upper bound of those before that. */
  #given: InboxPlace = NOWHERE
  #givenBefore: number
  /** The bound on the delivered index, as drained and as on disk. */
  #drainedBound: number
  #storedBound: number
  /** Whether the application has read since the agent started. */
  #isRead = false
  /** How often all iterators have been ended. */
  #stops = 0
  readonly #stopListeners = new Set<() => void>()
  #isSealed = false
  #end: { readonly error: StaticError | undefined } | undefined

  constructor(
    channel: Pick<AgentChannel, 'id' | 'turn'>,
    table: InboxTable,
    { messages, bytes, first, givenUpTo }: StoredInbox,
  ) {
    super()
    this.#channel = channel
    this.#table = table
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

  /** The last index before the first unsettled payload; `position` if there is none. Ignores payloads up to `after`. */
  settledUpTo(position: number, after: number): number {
    // Payloads that are only on disk come after all loaded ones.
    const onDisk = this.#onDiskAfter === undefined ? position : Math.max(this.#onDiskAfter, this.#firstOnDisk - 1)
    for (const { record } of this.#unsettled) if (record.index > after) return Math.min(record.index - 1, onDisk)
    return onDisk
  }

  /** Adds an arrived payload, or all payloads of a pack. They stay together, in memory or on disk. */
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

  /** Returns a payload that was put aside to the inbox. */
  readmit(incoming: Incoming): void {
    const entry = this.#hold(incoming)
    const { index } = entry.record
    // It will be read from disk, in order with the others.
    if (this.#onDiskAfter !== undefined && index > this.#onDiskAfter) return
    // Payloads that arrive next may be left on disk, and are looked up after this index.
    this.#last = Math.max(this.#last, index)
    this.#unsettled.add(entry)
    this.#queue(entry)
  }

  /**
   * Returns an iterator over the payloads that settles each when the next one is requested. If it ends early, its last
   * payload is delivered again.
   */
  read<Item>(
    map: (entry: InboxEntry) => Item,
    { ahead = false }: ReadOptions = {},
  ): AsyncIterableIterator<Item, undefined, undefined> {
    const stops = this.#stops
    let given: InboxEntry | undefined
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
        const give = (entry: InboxEntry | undefined): void => {
          // The payload of an earlier `next` that the caller did not wait for.
          settle()
          given = entry
          done = entry === undefined
          if (entry && !ahead) this.given(entry)
          resolve(entry ? { done: false, value: map(entry) } : end)
        }
        this.#request({ reader: iterator, give, fail: reject })
        return promise
      },
      return: () => {
        if (given?.holder === iterator) this.release(given)
        given = undefined
        done = true
        for (const waiting of this.#leave(iterator)) waiting.give(undefined)
        return Promise.resolve(end)
      },
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }

  /** The application has received a payload that was read ahead. */
  given(entry: InboxEntry): void {
    if (isBefore(this.#given, entry.record)) this.#given = placeOf(entry.record)
  }

  /** No payload beyond this index was delivered before. After a crash, the disk has only an upper bound. */
  limitGivenBefore(index: number): void {
    this.#givenBefore = Math.min(this.#givenBefore, index)
  }

  /** Whether a payload may have been delivered before the agent started. */
  wasGiven(index: number): boolean {
    return index <= this.#givenBefore
  }

  /** A payload in memory that no reader has. */
  find(matches: (entry: InboxEntry) => boolean): InboxEntry | undefined {
    return this.#ready.find(matches)
  }

  /** Settles a payload: the application is done with it, or with `isKept` false, it is over without that. */
  settle(entry: InboxEntry, isKept: boolean = true): void {
    if (entry.settled) return
    this.#remove(entry)
    // Unless it is stored, it was drained in no turn yet, and is in the one that writes this.
    if (isKept) this.#changes.push(...this.#table.keep(entry))
    entry.record.messageKey.fill(0)
    if (!entry.stored) return
    this.#changes.push(this.#table.drop(this.#channel.id, entry.record))
    // If a crash undoes this, the payload is delivered again.
    this.#channel.turn.touchPartLater()
  }

  /** Returns a payload to the queue, so that it is delivered again. */
  release(entry: InboxEntry): void {
    if (entry.settled || entry.holder === undefined) return
    entry.holder = undefined
    // A payload that was read ahead but not passed on was not delivered.
    entry.redelivered ||= !isBefore(this.#given, entry.record)
    this.#queue(entry)
  }

  /** Records how many attempts a handler has started at a payload. */
  count(entry: InboxEntry, attempts: number): void {
    if (entry.settled) return
    entry.record = { ...entry.record, attempts }
    if (entry.stored) this.#changes.push(this.#table.put(this.#channel.id, entry.record))
    this.#channel.turn.touchPart()
  }

  /** Removes a payload that is now stored elsewhere. */
  remove(entry: InboxEntry): void {
    this.#remove(entry)
  }

  /**
   * Settles queued payloads that are over, in memory and on disk, and returns them. Not for use in the middle of a
   * turn, because it reads from disk.
   */
  sweep(isOver: (incoming: Incoming) => boolean): readonly InboxRecord[] {
    const over = this.#ready.filter(isOver)
    for (const entry of over) this.settle(entry, false)
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

  /** No more payloads will arrive. Readers get the remaining ones, then their error or, without one, the end. */
  override end(_error: StaticError, forReaders: StaticError | undefined): void {
    if (this.#end) return
    this.#end = { error: forReaders }
    // Readers for which a payload is ready get it once the bound on disk allows it.
    for (const waiting of this.#waiting.splice(this.#ready.length)) this.#finish(waiting)
  }

  /** The agent stops: delivers nothing more and writes the exact bound to disk. */
  override seal(): void {
    if (this.#isSealed) return
    this.#isSealed = true
    this.#ready = []
    this.#onDiskAfter = undefined
    for (const waiting of this.#waiting.splice(0)) this.#finish(waiting)
    for (const listener of this.#stopListeners) listener()
    if (this.#storedBound !== this.#lastGiven) this.#channel.turn.touch()
  }

  /** The bound for the channel's record, which is at this index. */
  boundAt(index: number): number {
    const given = this.#lastGiven
    this.#drainedBound = this.#isRead && !this.#isSealed ? Math.max(index + AHEAD, given) : given
    return this.#drainedBound
  }

  /** Returns the changes since the last call. */
  override drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    for (const entry of this.#fresh) {
      if (entry.settled) continue
      entry.stored = true
      entry.record = asStored(entry)
      changes.push(this.#table.put(this.#channel.id, entry.record))
    }
    this.#fresh = []
    return changes
  }

  /** Everything drained is on disk: serves the readers that waited for it. */
  serveWritten(): void {
    this.#storedBound = this.#drainedBound
    this.#serve()
  }

  get #lastGiven(): number {
    return Math.max(this.#given.index, this.#givenBefore)
  }

  #hold(incoming: Incoming): InboxEntry {
    const entry: InboxEntry = { ...incoming, stored: false, settled: false, holder: undefined }
    this.#weight += weightOf(entry)
    this.#fresh.push(entry)
    this.#channel.turn.touchPart()
    return entry
  }

  #request(waiting: WaitingReader): void {
    if (!this.#isRead) {
      this.#isRead = true
      this.#channel.turn.touch()
    }
    if (this.#ready.length === 0) this.#refill()
    const [next] = this.#ready
    if (next === undefined && this.#end) this.#finish(waiting)
    else if (next === undefined || this.#waiting.length > 0) this.#waiting.push(waiting)
    else if (next.record.index <= this.#storedBound) this.#give(waiting, this.#ready.shift())
    else {
      this.#waiting.push(waiting)
      this.#channel.turn.touch()
    }
  }

  /** Delivers ready payloads to waiting readers. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      if (this.#ready.length === 0) this.#refill()
      const [next] = this.#ready
      if (next === undefined) break
      if (next.record.index > this.#storedBound) return this.#channel.turn.touch()
      this.#give(this.#waiting.shift(), this.#ready.shift())
    }
    if (this.#end) for (const waiting of this.#waiting.splice(0)) this.#finish(waiting)
  }

  #give(waiting: WaitingReader | undefined, entry: InboxEntry | undefined): void {
    if (entry) entry.holder = waiting?.reader
    waiting?.give(entry)
  }

  #refill(): void {
    if (this.#onDiskAfter === undefined) return
    const page = this.#table.page(this.#onDiskAfter, PAGE)
    // Even after the end: readers must not mistake the payloads read so far for all there are.
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
      const page = this.#table.page(after, PAGE)
      // The disk cannot be read, or a reader that waited for the write has loaded some of these.
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
    this.#changes.push(this.#table.drop(this.#channel.id, incoming.record))
    this.#channel.turn.touchPartLater()
    return incoming.record
  }

  /** Queues a payload at its place. */
  #queue(entry: InboxEntry): void {
    if (this.#isSealed) return
    insert(this.#ready, entry)
    this.#serve()
  }

  #remove(entry: InboxEntry): void {
    if (entry.settled) return
    entry.settled = true
    this.#unsettled.delete(entry)
    this.#weight -= weightOf(entry)
    if (entry.holder === undefined) this.#ready = this.#ready.filter((other) => other !== entry)
    entry.holder = undefined
  }

  #leave(reader: object): readonly WaitingReader[] {
    const left = this.#waiting.filter((waiting) => waiting.reader === reader)
    this.#waiting = this.#waiting.filter((waiting) => waiting.reader !== reader)
    return left
  }

  #finish(waiting: WaitingReader): void {
    if (this.#end?.error) waiting.fail(this.#end.error)
    else waiting.give(undefined)
  }
}

/**
 * The weight of a payload besides its ciphertext: handlers may hold a whole inbox in memory, however small its
 * messages.
 */
export const OVERHEAD = 1024

/** The weight of a payload, whether or not it is encrypted for the disk yet. */
export function weightOf({ record, payload }: Incoming): number {
  return bytesOf(record, payload) + OVERHEAD
}

/** The place of a message, without the rest of its record. */
export function placeOf({ index, part }: InboxPlace): InboxPlace {
  return { index, part }
}

/** Whether a payload comes before another one. */
export function isBefore(one: InboxPlace, other: InboxPlace): boolean {
  return one.index === other.index ? one.part < other.part : one.index < other.index
}

/** Inserts a payload in order. */
export function insert(entries: InboxEntry[], entry: InboxEntry): void {
  // By bisection: a handler that stops returns everything it has held back, up to a full inbox.
  let [from, to] = [0, entries.length]
  while (from < to) {
    const middle = (from + to) >> 1
    const other = entries[middle]
    if (other && isBefore(entry.record, other.record)) to = middle
    else from = middle + 1
  }
  entries.splice(from, 0, entry)
}
