/** How SQLite reports that its file is damaged. */
import { StaticError } from '@static/protocol'

/** SQLite's code for a page that it cannot read. */
export const SQLITE_CORRUPT = 11

/** Whether stored data is damaged: an error of `damaged`, or SQLite cannot read a page. */
export function isDamage(error: unknown): boolean {
  if (error instanceof StaticError) return error.code === 'store_corrupt'
  return ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_CORRUPT
}
