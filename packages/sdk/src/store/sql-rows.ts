/** The rows of a table in SQLite. Statements are generated from the table's description and prepared once. */
import { StaticError } from '@static/protocol'
import type { Bodies } from './bodies.ts'
import type { Database, Statement, Value } from './sqlite.ts'
import {
  type Column,
  columnName,
  type Key,
  type Rows,
  type RowsOf,
  type Table,
  type TableDeclaration,
  type Totals,
} from './table.ts'

/** A row as SQLite returns it: values by column. */
type SqlRow = Readonly<Record<string, unknown>>

/** A field of a row and its column. */
interface Place<Row, Field extends keyof Row & string = keyof Row & string> {
  readonly field: Field
  /** Name of the column in query results. */
  readonly name: string
  readonly write: Column<Row[Field]>['write']
  readonly read: Column<Row[Field]>['read']
}

/** Gives access to the rows of each table. Tables whose rows have a body need `bodies`. */
export function openRows(database: Database, bodies?: Bodies): RowsOf {
  return (table) => new SqlRows(database, table, bodies)
}

class SqlRows<Row> implements Rows<Row> {
  readonly #database: Database
  readonly #table: Table<Row>
  readonly #bodies: Bodies | undefined
  readonly #places: readonly Place<Row>[]
  /** Index of the body's place; -1: none. */
  readonly #bodyAt: number
  readonly #put: Statement<number>
  /** By the length of the key. */
  readonly #drops: Statement<number | null>[] = []
  readonly #pages: Statement<SqlRow>[] = []

  constructor(database: Database, table: Table<Row>, bodies: Bodies | undefined) {
    if (table.body && !bodies)
      throw new StaticError('internal_error', `Table ${table.name} has bodies, but none were given.`)
    const fields = Object.keys(table.columns) as (keyof Row & string)[]
    this.#database = database
    this.#table = table
    this.#bodies = table.body && bodies
    this.#places = placesOf(table, fields)
    this.#bodyAt = table.body ? fields.indexOf(table.body.field) : -1
    this.#put = this.#prepare(putSql(table))
  }

  put(row: Row): void {
    const values = valuesOf(this.#places, row)
    const bodies = this.#bodies
    if (!bodies) {
      this.#put.run(...values)
      return
    }
    const ciphertext = values[this.#bodyAt] as Uint8Array
    const taken = bodies.take()
    values[this.#bodyAt] = taken
    // A message that is written again keeps the number of its ciphertext.
    const used = this.#put.get(...values)
    bodies.put(used ?? taken, ciphertext)
    if (used !== taken) bodies.release(taken)
  }

  change<Field extends keyof Row & string>(
    ...fields: readonly Field[]
  ): (key: Key, values: Pick<Row, Field>) => boolean {
    const statement = this.#prepare<number>(changeSql(this.#table, fields))
    const places = placesOf(this.#table, fields)
    const bodies = this.#bodies
    if (!bodies) return (key, changed) => statement.run(...valuesOf(places, changed), ...key).changes > 0
    const ends = fields.some((field) => field === this.#table.body?.until)
    return (key, changed) => {
      const body = statement.get(...valuesOf(places, changed), ...key)
      if (body === undefined) return false
      if (ends) bodies.release(body)
      return true
    }
  }

  drop(...key: Key): void {
    const statement = (this.#drops[key.length] ??= this.#prepare(dropSql(this.#table, key.length)))
    if (!this.#bodies) {
      statement.run(...key)
      return
    }
    // Usually one row is meant, and `get` is faster.
    const isWhole = key.length === this.#table.key.length
    const dropped = isWhole ? [statement.get(...key)] : statement.all(...key)
    for (const body of dropped) if (typeof body === 'number') this.#bodies.release(body)
  }

  all(): readonly Row[] {
    return this.#read(this.#database.prepare<SqlRow>(allSql(this.#table)).all())
  }

  page(start: Key, after: Value, limit: number): readonly Row[] {
    const statement = (this.#pages[start.length] ??= this.#database.prepare(pageSql(this.#table, start.length)))
    return this.#read(statement.all(...start, after, limit))
  }

  totals(field: keyof Row & string): ReadonlyMap<string, Totals> {
    const table = this.#table
    const by = columnName(table, table.key[0] ?? '')
    const sum = `sum(${columnName(table, field)})`
    const sql = `SELECT ${by} AS part, count(*) AS rows, ${sum} AS sum FROM ${table.name} GROUP BY 1`
    const found = this.#database.prepare<Totals & { readonly part: string }>(sql).all()
    return new Map(found.map(({ part, rows, sum: total }) => [part, { rows, sum: total }]))
  }

  /** For tables with bodies, all statements except those that read rows return the number of a body. */
  #prepare<Result>(sql: string): Statement<Result> {
    const statement = this.#database.prepare<Result>(sql)
    return this.#bodies ? statement.pluck() : statement
  }

  #read(rows: readonly SqlRow[]): readonly Row[] {
    return rows.map((row) => {
      const fields: Partial<Row> = {}
      for (const { field, name, read } of this.#places) fields[field] = read(row[name], name)
      return fields as Row
    })
  }
}

function placesOf<Row, Field extends keyof Row & string>(
  table: Table<Row>,
  fields: readonly Field[],
): readonly Place<Row, Field>[] {
  return fields.map((field) => {
    const { write, read } = table.columns[field]
    return { field, name: field === table.body?.field ? 'ciphertext' : columnName(table, field), write, read }
  })
}

/** Not with `map`: this runs for every change. */
function valuesOf<Row, Field extends keyof Row & string>(
  places: readonly Place<Row, Field>[],
  row: Pick<Row, Field>,
): Value[] {
  const values: Value[] = []
  for (const { field, write } of places) values.push(write(row[field]))
  return values
}

/** Inserts, or updates in place. A REPLACE would first delete the row and everything that belongs to it. */
function putSql(table: TableDeclaration): string {
  const fields = Object.keys(table.columns)
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

function allSql(table: TableDeclaration): string {
  return `${selectSql(table)} ORDER BY ${table.key.map((field) => columnName(table, field)).join(', ')}`
}

function pageSql(table: TableDeclaration, length: number): string {
  const next = columnName(table, table.key[length] ?? '')
  return `${selectSql(table)} WHERE ${keyIs(table, length)} AND ${next} > ? ORDER BY ${next} LIMIT ?`
}

function selectSql({ name, ...table }: TableDeclaration): string {
  if (!table.body) return `SELECT * FROM ${name}`
  const join = table.body.until === undefined ? 'JOIN' : 'LEFT JOIN'
  return `SELECT ${name}.*, ciphertext FROM ${name} ${join} body ON number = ${bodyOf({ name, ...table })}`
}

function keyIs(table: TableDeclaration, length: number): string {
  const parts = table.key.slice(0, length)
  return parts.map((field) => `${columnName(table, field)} = ?`).join(' AND ')
}

/** The number of a row's body; null once it has ended. */
function bodyOf(table: TableDeclaration): string {
  const until = table.body?.until
  return until === undefined ? 'body' : `iif(${columnName(table, until)} IS NULL, body, NULL)`
}
