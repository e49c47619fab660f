/**
 * Writes the rows of a table in SQLite, as values in the order of its columns. Statements are generated from the
 * table's description and prepared once.
 */
import { StaticError } from '@static/protocol'
import type { Bodies } from '../bodies.ts'
import type { Database, Statement, Value } from '../sqlite.ts'
import { columnName, fieldsOf, type Key, keyIs, bodyOf, type TableDeclaration } from './table.ts'

/** The statements that change one table. Tables whose rows have a body need `bodies`. */
export class SqlTable {
  readonly #database: Database
  readonly #table: TableDeclaration
  readonly #bodies: Bodies | undefined
  /** Position of the body, and of the field that ends it; -1: none. */
  readonly #bodyAt: number
  readonly #untilAt: number
  readonly #put: Statement<number>
  /** By number of key parts. */
  readonly #drops: Statement<number | null>[] = []
  /** By the fields that change. */
  readonly #changes = new Map<string, Statement<number>>()

  constructor(database: Database, table: TableDeclaration, bodies: Bodies | undefined) {
    if (table.body && !bodies)
      throw new StaticError('internal_error', `Table ${table.name} has bodies, but none were given.`)
    const fields = fieldsOf(table)
    this.#database = database
    this.#table = table
    this.#bodies = table.body && bodies
    this.#bodyAt = fields.indexOf(table.body?.field ?? '')
    this.#untilAt = fields.indexOf(table.body?.until ?? '')
    this.#put = this.#prepare(putSql(table))
  }

  /** Inserts a row, or replaces the one with the same key. */
  put(values: readonly Value[]): void {
    const bodies = this.#bodies
    if (!bodies) {
      this.#put.run(...values)
      return
    }
    const ciphertext = values[this.#bodyAt] as Uint8Array
    const allocated = bodies.allocate()
    // A message that is rewritten keeps the number of its ciphertext.
    const used = this.#put.get(...values.with(this.#bodyAt, allocated)) ?? allocated
    if (used !== allocated) bodies.release(allocated)
    // The body of a message that has already been answered has ended, so it is not stored.
    if ((values[this.#untilAt] ?? null) === null) bodies.put(used, ciphertext)
    else bodies.release(used)
  }

  /** Changes some fields of a row. Returns whether it exists; one whose body has ended does not count. */
  change(fields: readonly string[], key: Key, values: readonly Value[]): boolean {
    const name = fields.join()
    let statement = this.#changes.get(name)
    if (!statement) {
      statement = this.#prepare<number>(changeSql(this.#table, fields))
      this.#changes.set(name, statement)
    }
    const bodies = this.#bodies
    if (!bodies) return statement.run(...values, ...key).changes > 0
    const body = statement.get(...values, ...key)
    if (body === undefined) return false
    if (fields.some((field) => field === this.#table.body?.until)) bodies.release(body)
    return true
  }

  /** Deletes the rows whose key starts with these parts, with everything that belongs to them. */
  drop(key: Key): void {
    const statement = (this.#drops[key.length] ??= this.#prepare(dropSql(this.#table, key.length)))
    if (!this.#bodies) {
      statement.run(...key)
      return
    }
    // Usually it is one row, for which `get` is faster.
    const isWhole = key.length === this.#table.key.length
    const dropped = isWhole ? [statement.get(...key)] : statement.all(...key)
    for (const body of dropped) if (typeof body === 'number') this.#bodies.release(body)
  }

  /** For tables with bodies, all statements return the number of a body. */
  #prepare<Result>(sql: string): Statement<Result> {
    const statement = this.#database.prepare<Result>(sql)
    return this.#bodies ? statement.pluck() : statement
  }
}

/** Inserts, or updates in place. A REPLACE would first delete the row and everything that belongs to it. */
function putSql(table: TableDeclaration): string {
  const fields = fieldsOf(table)
  const set = fields
    .filter((field) => !table.key.includes(field))
    .map((field) => {
      const name = columnName(table, field)
      // A body that has not ended keeps its number.
      const isBody = field === table.body?.field
      return `${name} = ${isBody ? `coalesce(${bodyOf(table)}, excluded.body)` : `excluded.${name}`}`
    })
  const names = fields.map((field) => columnName(table, field))
  return `
    INSERT INTO ${table.name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})
    ON CONFLICT DO UPDATE SET ${set.join(', ')}${table.body ? ' RETURNING body' : ''}
  `
}

function changeSql(table: TableDeclaration, fields: readonly string[]): string {
  const set = fields.map((field) => `${columnName(table, field)} = ?`).join(', ')
  const until = table.body?.until === undefined ? '' : ` AND ${columnName(table, table.body.until)} IS NULL`
  const returning = table.body ? ' RETURNING body' : ''
  return `UPDATE ${table.name} SET ${set} WHERE ${keyIs(table, table.key.length)}${until}${returning}`
}

function dropSql(table: TableDeclaration, length: number): string {
  const returning = table.body ? ` RETURNING ${bodyOf(table)}` : ''
  return `DELETE FROM ${table.name} WHERE ${keyIs(table, length)}${returning}`
}
