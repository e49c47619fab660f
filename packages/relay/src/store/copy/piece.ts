/** The pieces of a database copy. */
import type { Value } from '../checksum.ts'
import type { CopiedTable } from './tables.ts'

/** A row for a table of the target. */
export interface CopiedRow {
  readonly table: CopiedTable
  readonly values: readonly Value[]
}

/** Rows that are stored together, and where the copy continues after them. */
export interface Piece {
  readonly rows: readonly CopiedRow[]
  readonly mark: Mark
}

/** The progress of a copy: the part of the source, and the key of what was last stored of it. */
export interface Mark {
  readonly part: number
  readonly key: readonly Value[]
}

/** Where every copy starts. */
export const START: Mark = { part: 0, key: [] }
