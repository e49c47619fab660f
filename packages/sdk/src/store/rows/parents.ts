/**
 * The keys of all rows to which others belong: channels, epochs and invites. With them, a change is checked before it
 * is recorded, as the database would check it, and the rows that are dropped along with their parent are found.
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

/** The rows of one table, with an index by parent row, so that changes stay fast in a large table. */
class KnownRows {
  readonly #parents = new Map<string, string>()
  readonly #byParent = new Map<string, Set<string>>()

  constructor(keys: ReadonlyMap<string, string>) {
    for (const [key, parent] of keys) this.set(key, parent)
  }

  parentOf(key: string): string | undefined {
    return this.#parents.get(key)
  }

  of(parent: string): readonly string[] {
    return [...(this.#byParent.get(parent) ?? [])]
  }

  /** Adds a row, moves it to another parent or, if there is none, removes it. Returns its previous parent. */
  set(key: string, parent: string | undefined): string | undefined {
    const before = this.#parents.get(key)
    if (before === parent) return before
    if (before !== undefined) {
      const rest = this.#byParent.get(before)
      rest?.delete(key)
      if (rest?.size === 0) this.#byParent.delete(before)
      this.#parents.delete(key)
    }
    if (parent === undefined) return before
    this.#parents.set(key, parent)
    const rows = this.#byParent.get(parent)
    if (rows) rows.add(key)
    else this.#byParent.set(parent, new Set([key]))
    return before
  }
}

/** Follows the changes of a turn: call `keep` when the ring has it, `revert` if not. */
export class Parents {
  readonly #tables = new Map<number, KnownRows>()
  #undo: (() => void)[] = []

  constructor(database: Database) {
    for (const shape of SHAPES)
      if (shape.children.length > 0) this.#tables.set(shape.number, new KnownRows(readKeys(database, shape)))
  }

  has(table: number, key: string): boolean {
    return this.#tables.get(table)?.parentOf(key) !== undefined
  }

  put(table: number, key: string, parent: string): void {
    const rows = this.#tables.get(table)
    if (rows === undefined || rows.parentOf(key) === parent) return
    const before = rows.set(key, parent)
    this.#undo.push(() => rows.set(key, before))
  }

  /** Removes a row with everything that belongs to it. Returns the removed rows to which others belonged. */
  drop(table: number, key: string): readonly RemovedRow[] {
    const rows = this.#tables.get(table)
    const parent = rows?.set(key, undefined)
    if (parent === undefined) return NONE
    this.#undo.push(() => rows?.set(key, parent))
    const children = SHAPES[table]?.children ?? []
    return [{ table, key }, ...children.flatMap((child) => this.dropAllOf(child, key))]
  }

  /** The same for all rows of a table that belong to one row. */
  dropAllOf(table: number, parent: string): readonly RemovedRow[] {
    const keys = this.#tables.get(table)?.of(parent) ?? []
    return keys.flatMap((key) => this.drop(table, key))
  }

  keep(): void {
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
  // Only the columns of both keys, because a group takes kilobytes.
  const used = new Set([...key, ...(parent?.key ?? [])])
  const columns = names.map((name, at) => (used.has(at) ? name : 'NULL')).join(', ')
  const statement = database.prepare<Value[]>(`SELECT ${columns} FROM ${declaration.name}`).raw()
  return new Map(statement.all().map((row) => [keyAt(key, row), parent ? keyAt(parent.key, row) : '']))
}
