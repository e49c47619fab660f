/** The relay's store in a file, without a relay, and how many pages it writes. */
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import type { OpenStore } from '@static/relay'
import { openSqliteStore } from '@static/relay/internal'

/** A store in a file. */
export function fileStore(path: string): OpenStore {
  return (options, listener) => openSqliteStore({ ...options, path }, listener)
}

const HEADER_BYTES = 32
const FRAME_BYTES = 24 + 4096

/**
 * Counts the pages that a store appends to its write-ahead log. SQLite starts the log again from time to time, at the
 * beginning of a transaction, with new salts in its header; old frames stay behind the new ones.
 */
export class PageCounter {
  readonly #wal: string
  #salts = ''
  #frames = 0

  constructor(path: string) {
    this.#wal = `${path}-wal`
    this.take()
  }

  /** Pages written since the last call, between which at most one transaction may have ended. */
  take(): number {
    const file = openSync(this.#wal, 'r')
    try {
      const salts = read(file, 16, 8)
      const isSame = salts === this.#salts
      let frames = isSame ? this.#frames : 0
      const before = frames
      const size = statSync(this.#wal).size
      for (let at = HEADER_BYTES + frames * FRAME_BYTES; at + FRAME_BYTES <= size; at += FRAME_BYTES) {
        if (read(file, at + 8, 8) !== salts) break
        frames++
      }
      this.#salts = salts
      this.#frames = frames
      return frames - before
    } finally {
      closeSync(file)
    }
  }
}

function read(file: number, at: number, length: number): string {
  const bytes = Buffer.alloc(length)
  readSync(file, bytes, 0, length, at)
  return bytes.toString('hex')
}
