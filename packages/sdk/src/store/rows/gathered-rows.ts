/**
 * The sum of the changes since the last transaction, by row. If a row was put many times, only the last version is
 * written; a row that was put and dropped is not written at all. The result is the same as applying all changes one
 * after the other.
 *
 * Rows are kept as offsets into a buffer of recorded changes, and read only when they are written.
 */
import type { Bodies } from '../bodies.ts'
import { readKeys, type RemovedRow } from './parents.ts'
import { readRowChange, type RowChange, type RowChangeKind } from './row-change.ts'
import { SqlTable } from './sql-table.ts'
import type { Database, Value } from '../sqlite.ts'
import { shapeAt, SHAPES } from './shape.ts'

/** A recorded change of a row. */
export interface RowStep {
  readonly kind: RowChangeKind
  readonly table: number
  /** The whole key or, for a drop with `isStart`, the prefix of the keys. */
  readonly key: string
  readonly isStart: boolean
  /** Key of the row that a put row belongs to. */
  readonly parent: string
  /** The rows dropped along with it to which other rows belonged. */
  readonly removed: readonly RemovedRow[]
  /** Offset of the change from the first one of its turn. */
  readonly at: number
}

/** A row to be put. */
interface PutRow {
  readonly at: number
  readonly parent: string
  /** Later changes. */
  changes: number[] | undefined
}

/** The changes of one table: all drops are applied before everything else. */
class GatheredTable {
  readonly puts = new Map<string, PutRow>()
  /** Changes of rows that are only in the database. */
  readonly changes = new Map<string, number[]>()
  /**
   * Each with the offset of the change that drops the row, or of the row's put, if it was dropped along with another
   * row to which it had just moved.
   */
  readonly drops = new Map<string, number>()
  /** Drops of all rows whose key starts with a prefix. */
  readonly startDrops = new Map<string, number>()
}

/** The changes of all tables. */
export class GatheredRows {
  readonly #written: readonly SqlTable[]
  /**
   * Keys of the rows in the database, for tables whose rows are mostly dropped before they get there and then need no
   * statement.
   */
  readonly #brief: ReadonlyMap<number, Set<string>>
  #tables: readonly GatheredTable[] = SHAPES.map(() => new GatheredTable())

  constructor(database: Database, bodies: Bodies) {
    this.#written = SHAPES.map(({ declaration }) => new SqlTable(database, declaration, bodies))
    const brief = SHAPES.filter(({ declaration }) => declaration.body ?? declaration.brief)
    this.#brief = new Map(brief.map((shape) => [shape.number, new Set(readKeys(database, shape).keys())]))
  }

  /** Adds a change whose turn begins at this offset of the buffer. */
  add(step: RowStep, turn: number): void {
    const table = this.#at(step.table)
    const { key } = step
    const at = turn + step.at
    if (step.kind === 'put') {
      table.puts.set(key, { at, parent: step.parent, changes: undefined })
      table.changes.delete(key)
    } else if (step.kind === 'change') {
      const put = table.puts.get(key)
      if (put) (put.changes ??= []).push(at)
      else table.changes.set(key, [...(table.changes.get(key) ?? []), at])
    } else {
      if (step.isStart) {
        for (const other of table.puts.keys()) if (other.startsWith(key)) table.puts.delete(other)
        for (const other of table.changes.keys()) if (other.startsWith(key)) table.changes.delete(other)
      } else {
        table.puts.delete(key)
        table.changes.delete(key)
      }
      ;(step.isStart ? table.startDrops : table.drops).set(key, at)
      for (const removed of step.removed) this.#removeChildren(removed)
    }
  }

  /** Applies all changes to the database, in the caller's transaction. After an error it is no longer usable. */
  apply(buffer: Uint8Array): void {
    // Children first: messages return the numbers of their bodies only if they are dropped themselves.
    for (const { number } of SHAPES.toReversed()) this.#drop(buffer, number)
    for (const { number } of SHAPES) {
      const { puts, changes } = this.#at(number)
      const brief = this.#brief.get(number)
      for (const [key, put] of puts) {
        this.#written[number]?.put(putValues(buffer, put))
        brief?.add(key)
      }
      for (const list of changes.values()) for (const at of list) applyChange(buffer, at, this.#written[number])
    }
  }

  clear(): void {
    this.#tables = SHAPES.map(() => new GatheredTable())
  }

  #drop(buffer: Uint8Array, number: number): void {
    const { drops, startDrops } = this.#at(number)
    const brief = this.#brief.get(number)
    for (const [key, at] of drops) {
      if (brief?.delete(key) === false) continue
      this.#written[number]?.drop(keyOf(readRowChange(buffer, at).change))
    }
    for (const [start, at] of startDrops) {
      this.#written[number]?.drop(readRowChange(buffer, at).change.values)
      for (const key of brief ?? []) if (key.startsWith(start)) brief?.delete(key)
    }
  }

  #removeChildren({ table, key }: RemovedRow): void {
    for (const child of shapeAt(table).children) {
      const { puts, drops } = this.#at(child)
      for (const [other, { parent, at }] of puts) {
        if (parent !== key) continue
        puts.delete(other)
        // In the database it may belong to a row that stays.
        drops.set(other, at)
      }
    }
  }

  #at(number: number): GatheredTable {
    const table = this.#tables[number]
    if (table === undefined) throw new RangeError(`There is no table ${number}.`)
    return table
  }
}

/** The key of a row that is put or dropped. */
function keyOf({ kind, table, values }: RowChange): readonly Value[] {
  return kind === 'put' ? shapeAt(table).key.map((place) => values[place] ?? null) : values
}

/** The values of a row with its later changes. */
function putValues(buffer: Uint8Array, { at, changes }: PutRow): readonly Value[] {
  const put = readRowChange(buffer, at).change
  if (changes === undefined) return put.values
  const { until, key } = shapeAt(put.table)
  const values = [...put.values]
  for (const place of changes) {
    // As in the database, a row whose body has ended is not changed.
    if ((values[until] ?? null) !== null) break
    const { change } = readRowChange(buffer, place)
    change.fields.forEach((field, n) => (values[field] = change.values[key.length + n] ?? null))
  }
  return values
}

function applyChange(buffer: Uint8Array, at: number, table: SqlTable | undefined): void {
  const { change } = readRowChange(buffer, at)
  const { fields, key } = shapeAt(change.table)
  const names = change.fields.map((field) => fields[field] ?? '')
  table?.change(names, change.values.slice(0, key.length), change.values.slice(key.length))
}
