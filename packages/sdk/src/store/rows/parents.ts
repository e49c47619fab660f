/**
 * The keys of all rows that others belong to: channels, epochs and invites. With them a change is checked before it is
 * recorded, as the database would check it, and rows that go with their parent are found.
 */
import type { Database, Value } from '../sqlite.ts'
import { columnName } from './table.ts'
import { keyAt, SHAPES, type TableShape } from './shape.ts'

/** A row that is gone. */
export interface RemovedRow {
  readonly table: number
  readonly key: string
}

const NONE: readonly RemovedRow[] = []

/** Follows the changes of a turn: `settle` when it is recorded, `revert` if it is not. */
export class Parents {
  /** By table: the key of the row that each row belongs to. */
  readonly #rows = new Map<number, Map<string, string>>()
  #undo: (() => void)[] = []

  constructor(database: Database) {
    for (const shape of SHAPES) if (shape.children.length > 0) this.#rows.set(shape.number, readKeys(database, shape))
  }

  has(table: number, key: string): boolean {
    return this.#rows.get(table)?.has(key) === true
  }

  put(table: number, key: string, parent: string): void {
    const rows = this.#rows.get(table)
    if (rows === undefined || rows.get(key) === parent) return
    const before = rows.get(key)
    rows.set(key, parent)
    this.#undo.push(() => (before === undefined ? rows.delete(key) : rows.set(key, before)))
  }

  /** Removes rows with everything that belongs to them. Returns those that others belonged to. */
  drop(table: number, isMeant: (key: string, parent: string) => boolean): readonly RemovedRow[] {
    const rows = this.#rows.get(table)
    if (rows === undefined) return NONE
    const gone = [...rows].filter(([key, parent]) => isMeant(key, parent))
    const removed: RemovedRow[] = []
    for (const [key, parent] of gone) {
      rows.delete(key)
      this.#undo.push(() => rows.set(key, parent))
      removed.push({ table, key })
      for (const child of SHAPES[table]?.children ?? []) removed.push(...this.drop(child, (_, of) => of === key))
    }
    return removed
  }

  /** Removes one row by its key, like `drop`. */
  dropOne(table: number, key: string): readonly RemovedRow[] {
    return this.has(table, key) ? this.drop(table, (other) => other === key) : NONE
  }

  settle(): void {
    this.#undo = []
  }

  revert(): void {
    for (const undo of this.#undo.toReversed()) undo()
    this.#undo = []
  }
}

/** The keys of all rows of a table, each with the key of the row that it belongs to. */
export function readKeys(database: Database, { declaration, fields, key, parent }: TableShape): Map<string, string> {
  const names = fields.map((field) => columnName(declaration, field))
  // Only the columns of both keys: a group takes kilobytes.
  const used = new Set([...key, ...(parent?.key ?? [])])
  const columns = names.map((name, at) => (used.has(at) ? name : 'NULL')).join(', ')
  const statement = database.prepare<Value[]>(`SELECT ${columns} FROM ${declaration.name}`).raw()
  return new Map(statement.all().map((row) => [keyAt(key, row), parent ? keyAt(parent.key, row) : '']))
}
