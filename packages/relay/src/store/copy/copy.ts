/**
 * Copies the database file of a stopped relay into PostgreSQL: relay id, logs with their indexes and hashes, cursors,
 * Welcomes, invites and message ids stay as they are, so that agents continue where they were. An interrupted copy
 * continues after the last stored batch.
 */
import { parsePostgresUrl } from '@static/node/postgres-address'
import { StaticError } from '@static/protocol'
import { damaged } from '../checksum.ts'
import { lackingRights } from '../postgres/deployment.ts'
import { isDamage } from '../sqlite/damage.ts'
import type { Piece } from './piece.ts'
import { CopySource } from './source.ts'
import { CopyTarget } from './target.ts'

/** Number of rows stored in one transaction. */
const BATCH_ROWS = 2000
const BATCH_BYTES = 1_048_576

/** What to copy, and its destination. */
export interface RelayCopyOptions {
  /** The database file of a relay that is not running. */
  readonly path: string
  /** `postgres://…`: a database without tables of a relay. */
  readonly url: string
  /** The path of `relay.key`, which all nodes of the copy need; created if there is none. */
  readonly keyFile: string
  readonly onProgress?: ((progress: RelayCopyProgress) => void) | undefined
}

/** The progress of a copy. */
export interface RelayCopyProgress {
  readonly channels: number
  readonly totalChannels: number
  readonly entries: number
  /** Rows of all tables. */
  readonly rows: number
}

/** A complete copy. */
export interface RelayCopy {
  readonly relayId: Uint8Array
  /** Excludes what earlier runs reported; undefined if an earlier run had stored everything. */
  readonly progress: RelayCopyProgress | undefined
}

/**
 * Copies. Throws `not_found` if there is no file, `store_locked` if a relay or another copy runs, `store_corrupt` if a
 * row is damaged, `invalid_request` if the database contains anything else or must not be used, and `unavailable` if it
 * cannot be reached or the connection ends: then another call continues the copy.
 */
export async function copyToPostgres({ path, url, keyFile, onProgress }: RelayCopyOptions): Promise<RelayCopy> {
  const address = parsePostgresUrl(url)
  const source = await CopySource.open(path)
  try {
    const { relayId } = source
    const target = await CopyTarget.open(address, keyFile, source)
    try {
      if (target.isComplete) return { relayId, progress: undefined }
      const report = (): RelayCopyProgress => {
        const { channels, entries, rows } = target.progress
        return { channels, totalChannels: source.channels.length, entries, rows }
      }
      for (const batch of batches(source.read(target.progress.mark))) {
        await target.store(batch)
        onProgress?.(report())
      }
      await target.finish(source)
      return { relayId, progress: report() }
    } finally {
      await target.close()
    }
  } catch (error) {
    throw copyError(error, path)
  } finally {
    source.close()
  }
}

/** Groups pieces into transactions. */
function* batches(pieces: Iterable<Piece>): Iterable<readonly Piece[]> {
  let batch: Piece[] = []
  let rows = 0
  let bytes = 0
  for (const piece of pieces) {
    batch.push(piece)
    rows += Math.max(1, piece.rows.length)
    for (const { values } of piece.rows) {
      for (const value of values) if (typeof value === 'object') bytes += value?.length ?? 0
    }
    if (rows < BATCH_ROWS && bytes < BATCH_BYTES) continue
    yield batch
    batch = []
    rows = 0
    bytes = 0
  }
  if (batch.length > 0) yield batch
}

function copyError(error: unknown, path: string): StaticError {
  if (error instanceof StaticError) return error
  if (isDamage(error)) return damaged(`a page of ${path}`)
  const refused = lackingRights(error)
  if (refused) return refused
  const reason = error instanceof Error ? error.message : String(error)
  return StaticError.of('unavailable', `The copy stopped (${reason}). Run the command again to continue.`, {
    cause: error,
  })
}
