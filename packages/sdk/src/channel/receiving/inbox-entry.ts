/** A payload in an inbox, and its row on disk. */
import type { StaticError } from '@static/protocol'
import type { Change, ChannelId, InboxPlace, InboxRecord } from '../../ports/index.ts'
import { bytesOf } from './stored-message.ts'

/** A payload on its way to the application. */
export interface Incoming {
  /** One of a pack has neither ciphertext nor key until it is stored: most are settled first. */
  readonly record: InboxRecord
  readonly payload: Uint8Array
  /** Whether it may have been delivered before. */
  readonly redelivered: boolean
}

/** A payload in the inbox. */
export interface Entry extends Incoming {
  record: InboxRecord
  redelivered: boolean
  /** Whether it is on disk, or will be with the changes that were drained last. */
  stored: boolean
  settled: boolean
  /** The reader that has it; undefined while it is queued. */
  holder: object | undefined
}

/** What an inbox asks of its membership. */
export interface InboxHost {
  /** Marks the inbox as changed, so that it is written at the end of the turn. */
  touch(): void
  /** The same for a change that may be written later, because a crash may undo it. */
  touchLater(): void
  /** The same, including the channel's record. */
  touchRecord(): void
  /**
   * Writes pending changes, then returns decrypted rows on disk after an index, never a part of a pack's.
   * After an error no more may arrive.
   */
  page(after: number, limit: number): readonly Incoming[] | StaticError
}

/** The state of an inbox on disk when it is opened. */
export interface StoredInbox {
  readonly messages: number
  /** Bytes of ciphertext. */
  readonly bytes: number
  /** The index of the first one; 0 if there is none. */
  readonly first: number
  readonly givenUpTo: number
}

export const NOTHING_STORED: StoredInbox = { messages: 0, bytes: 0, first: 0, givenUpTo: 0 }

/** The rows of an inbox on disk. */
export interface InboxRows {
  put(id: ChannelId, record: InboxRecord): Change
  drop(id: ChannelId, place: InboxPlace): Change
}

export const PAYLOADS: InboxRows = {
  put: (id, record) => ({ type: 'putInbox', id, record }),
  drop: (id, record) => ({ type: 'dropInbox', id, place: placeOf(record) }),
}

/** What a payload counts besides its ciphertext: handlers may hold a whole inbox in memory, however small its messages. */
export const OVERHEAD = 1024

/** What a payload counts, whether it is encrypted for the disk yet or not. */
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

/** Inserts a payload at its place among others. */
export function insert(entries: Entry[], entry: Entry): void {
  // By halves: a handler that stops returns everything it has held back, up to a full inbox.
  let [from, to] = [0, entries.length]
  while (from < to) {
    const middle = (from + to) >> 1
    const other = entries[middle]
    if (other && isBefore(entry.record, other.record)) to = middle
    else from = middle + 1
  }
  entries.splice(from, 0, entry)
}
