/**
 * Payloads that the application has not settled: given to whoever asks, in order, each to one. A payload is *settled*
 * when its reader asks for the next one or leaves the loop. What is not settled when the turn ends goes to disk, as
 * ciphertext and its own key; what many have not been asked for is not kept in memory.
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

interface Entry extends Incoming {
  stored: boolean
  settled: boolean
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
  /** Rows on disk after an index, opened; everything that was to be written is. */
  page(after: number, limit: number): readonly Incoming[]
}

/** What is kept in memory. */
const KEPT = 256
/** What may wait on disk, in bytes of ciphertext. */
const FULL_BYTES = 64 * 1024 * 1024
const PAGE = 64

/** The payloads of one channel. */
export class Inbox {
  readonly #id: ChannelId
  readonly #host: InboxHost
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
  /** How often the iterators were ended. */
  #stops = 0
  #end: { readonly error: StaticError | undefined } | undefined

  constructor(id: ChannelId, host: InboxHost, storedBytes = 0) {
    this.#id = id
    this.#host = host
    this.#bytes = storedBytes
    if (storedBytes > 0) this.#onDiskAfter = 0
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
    const entry: Entry = { ...incoming, stored: false, settled: false }
    this.#bytes += entry.record.ciphertext.length
    this.#fresh.push(entry)
    this.#host.touch()
    const waiting = this.#onDiskAfter === undefined && this.#ready.length === 0 ? this.#waiting.shift() : undefined
    if (waiting) {
      this.#last = entry.record.index
      waiting.give(entry)
    } else if (this.#onDiskAfter === undefined && this.#ready.length < KEPT) {
      this.#last = entry.record.index
      this.#ready.push(entry)
    } else {
      this.#onDiskAfter ??= this.#last
    }
  }

  /** An iterator over the payloads. Leaving it settles the last one, and ends a `next` that waits. */
  read<Item>(map: (incoming: Incoming) => Item): AsyncIterableIterator<Item, undefined, undefined> {
    const stops = this.#stops
    let given: Entry | undefined
    let done = false
    const end = { done: true, value: undefined } as const
    const settle = (): void => {
      if (given) this.#settle(given)
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
          resolve(entry ? { done: false, value: map(entry) } : end)
        }
        this.#take({ reader: iterator, give, fail: reject })
        return promise
      },
      return: () => {
        settle()
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

  /** Ends the iterators that there are. */
  stop(): void {
    this.#stops++
    for (const waiting of this.#waiting.splice(0)) waiting.give(undefined)
  }

  /** Nothing more will come. Readers get what there is, then the error, or just the end. */
  end(error: StaticError | undefined): void {
    if (this.#end) return
    this.#end = { error }
    for (const waiting of this.#waiting.splice(0)) this.#finish(waiting)
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

  #take(waiting: Waiting): void {
    if (this.#ready.length === 0) this.#refill()
    const ready = this.#ready.shift()
    if (ready) waiting.give(ready)
    else if (this.#end) this.#finish(waiting)
    else this.#waiting.push(waiting)
  }

  #refill(): void {
    if (this.#onDiskAfter === undefined) return
    const page = this.#host.page(this.#onDiskAfter, PAGE)
    this.#onDiskAfter = page.at(-1)?.record.index
    this.#last = this.#onDiskAfter ?? this.#last
    this.#ready = page.map((incoming) => ({ ...incoming, stored: true, settled: false }))
    if (page.length < PAGE) this.#onDiskAfter = undefined
  }

  #settle(entry: Entry): void {
    if (entry.settled) return
    entry.settled = true
    this.#bytes -= entry.record.ciphertext.length
    entry.record.messageKey.fill(0)
    if (!entry.stored) return
    this.#changes.push({ type: 'dropInbox', id: this.#id, index: entry.record.index })
    this.#host.touch()
  }

  #finish(waiting: Waiting): void {
    if (this.#end?.error) waiting.fail(this.#end.error)
    else waiting.give(undefined)
  }
}
