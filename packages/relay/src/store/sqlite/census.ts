/**
 * Counts what the relay stores, for the metrics: a few channels at a time, so that calls never wait for it, however
 * many there are.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { StoreCensus } from '../../ports.ts'

/** Channels counted in one step. */
const STEP_CHANNELS = 500

interface Sums {
  after: number
  channels: number
  bytes: number
  oldest: number | undefined
}

/** Counts the channels of a database over and over. */
export class Census {
  readonly #db: DatabaseSync
  readonly #page: StatementSync
  #sums = start()

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#page = db.prepare('SELECT number, bytes, oldest_at FROM channels WHERE number > ? ORDER BY number LIMIT ?')
    this.#page.setReturnArrays(true)
  }

  /** Counts the next channels. Returns the result when it has counted all, and then starts again. */
  step(): StoreCensus | undefined {
    const sums = this.#sums
    const rows = this.#page.all(sums.after, STEP_CHANNELS) as unknown as [number, number, number | null][]
    for (const [number, bytes, oldest] of rows) {
      sums.after = number
      sums.channels++
      sums.bytes += bytes
      if (oldest !== null) sums.oldest = Math.min(sums.oldest ?? Infinity, oldest)
    }
    if (rows.length === STEP_CHANNELS) return undefined
    this.#sums = start()
    const { channels, bytes, oldest: oldestAt } = sums
    return { channels, logBytes: bytes, oldestAt, ...this.#sizes() }
  }

  #sizes(): Pick<StoreCensus, 'fileBytes' | 'freeBytes'> {
    const value = (name: string): number => Number(this.#db.prepare(`PRAGMA ${name}`).get()?.[name])
    const page = value('page_size')
    return { fileBytes: page * value('page_count'), freeBytes: page * value('freelist_count') }
  }
}

function start(): Sums {
  return { after: 0, channels: 0, bytes: 0, oldest: undefined }
}
