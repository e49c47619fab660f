/**
 * The kept messages of one channel on disk: read a page at a time, and deleted in small steps, between which other work
 * goes on.
 */
import type { ChannelId, KeptRecord, KeptSize, Time } from '../../ports/index.ts'
import type { Journal } from '../journal.ts'

/** What a sweep leaves: the newest messages up to this number and these bytes. */
export const MOST_KEPT_MESSAGES = 100_000
export const MOST_KEPT_BYTES: number = 64 * 1024 * 1024
/** How many messages a step looks at, and the bytes after which it stops deleting: a few milliseconds. */
const STEP_MESSAGES = 128
const STEP_BYTES: number = 64 * 1024
/** The rows that are read at once for that. */
const PAGE_ROWS = 128
/** The rows that are read at once for a page, and the bytes after which it ends. */
const READ_ROWS = 32
const PAGE_BYTES: number = 4 * 1024 * 1024
/** After so many bytes of messages that are over but not swept yet, only such messages are to be expected. */
const SKIPPED_BYTES: number = 1024 * 1024
/** The most rows of one index: a pack of this agent beside one of another. */
const INDEX_ROWS = 32
const NEWEST = Number.MAX_SAFE_INTEGER

/** A number of messages and their bytes. */
export interface Amount {
  readonly messages: number
  readonly bytes: number
}

const NOTHING: Amount = { messages: 0, bytes: 0 }

/** The kept messages of a channel. */
export class KeptLog {
  readonly #journal: Pick<Journal, 'kept' | 'keptSizes' | 'add' | 'written'>
  readonly #id: ChannelId

  constructor(journal: Pick<Journal, 'kept' | 'keptSizes' | 'add' | 'written'>, id: ChannelId) {
    this.#journal = journal
    this.#id = id
  }

  /**
   * The messages before an index that were kept since a time, the newest first. A page has about `limit` messages: more
   * if necessary to include all of its last index, and fewer if they are large. It is empty only at the end.
   */
  page(before: number | undefined, limit: number, since: Time): readonly KeptRecord[] {
    const page: KeptRecord[] = []
    let [bytes, skipped] = [0, 0]
    for (let next = before ?? NEWEST; ;) {
      const rows = this.#journal.kept(this.#id, next, READ_ROWS + INDEX_ROWS)
      const isEnd = rows.length < READ_ROWS + INDEX_ROWS
      for (const [at, row] of rows.entries()) {
        const isNewIndex = row.index !== next
        if (isNewIndex && (page.length >= limit || bytes >= PAGE_BYTES)) return page
        // The rest of this index may be missing here.
        if (isNewIndex && !isEnd && at >= READ_ROWS) break
        next = row.index
        if (row.keptAt < since) {
          skipped += row.bytes
          continue
        }
        page.push(row)
        bytes += row.bytes
      }
      if (isEnd || skipped > SKIPPED_BYTES) return page
    }
  }

  /**
   * Deletes the messages that were kept before a time, and the oldest beyond the limits. `added` returns what was added
   * since it was called last: a step does twice that, so that members cannot add faster than it deletes.
   */
  async sweep(since: Time, added: () => Amount): Promise<void> {
    let [messages, bytes] = [0, 0]
    const isOver = (row: KeptSize): boolean => {
      messages++
      bytes += row.bytes
      return row.keptAt < since || messages > MOST_KEPT_MESSAGES || bytes > MOST_KEPT_BYTES
    }
    await this.#drop(isOver, added)
  }

  /** Deletes all messages that are kept now. */
  async erase(): Promise<void> {
    await this.#drop(
      () => true,
      () => NOTHING,
    )
  }

  /** Deletes some messages, from the newest to the oldest. */
  async #drop(isOver: (row: KeptSize) => boolean, added: () => Amount): Promise<void> {
    let left = budgetOf(NOTHING)
    for (let before = NEWEST; ;) {
      // Writes to the database what the page before has deleted.
      const rows = this.#journal.keptSizes(this.#id, before, PAGE_ROWS)
      const isEnd = rows.length < PAGE_ROWS
      const last = rows.at(-1)?.index
      let seen = 0
      for (const row of rows) {
        const isNewIndex = row.index !== before
        // The rest of the last index may be missing here.
        if (isNewIndex && (left.bytes <= 0 || (!isEnd && row.index === last))) break
        before = row.index
        seen++
        if (!isOver(row)) continue
        this.#journal.add({ type: 'dropKept', id: this.#id, place: row })
        left.bytes -= row.bytes
      }
      if (isEnd && seen === rows.length) break
      left.messages -= seen
      if (left.messages > 0 && left.bytes > 0) continue
      await this.#journal.written()
      left = budgetOf(added())
    }
    await this.#journal.written()
  }
}

/** What a step may look at and delete. */
function budgetOf({ messages, bytes }: Amount): { messages: number; bytes: number } {
  return { messages: STEP_MESSAGES + 2 * messages, bytes: STEP_BYTES + 2 * bytes }
}
