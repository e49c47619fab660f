/** The rows of a table in SQLite, by statements that follow from its description and are prepared once. */
import { StaticError } from '@static/protocol'
import type { Bodies } from './bodies.ts'
import type { Database, Statement, Value } from './sqlite.ts'
import { columnName, type Key, type Rows, type RowsOf, type Table, type TableDeclaration } from './table.ts'

/** A row as SQLite gives it: values by column. */
type SqlRow = Readonly<Record<string, unknown>>

/** Gives the rows of each table; tables whose rows have a body need `bodies`. */
export function openRows(database: Database, bodies?: Bodies): RowsOf {
  return (table) => new SqlRows(database, table, bodies)
}

class SqlRows<Row> implements Rows<Row> {
  readonly #database: Database
  readonly #table: Table<Row>
  readonly #bodies: Bodies | undefined
  readonly #fields: readonly (keyof Row & string)[]
  /** Of the columns that hold the fields in a row that was read. */
  readonly #names: readonly string[]
  /** Which of the fields is the body; -1: none. */
  readonly #bodyAt: number
  readonly #put: Statement<number>
  /** By the length of the key. */
  readonly #drops: Statement<number | null>[] = []
  readonly #pages: Statement<SqlRow>[] = []

  constructor(database: Database, table: Table<Row>, bodies: Bodies | undefined) {
    if (table.body && !bodies) throw new StaticError('internal_error', `The table ${table.name} needs bodies.`)
    this.#database = database
    this.#table = table
    this.#bodies = table.body && bodies
    this.#fields = Object.keys(table.columns) as (keyof Row & string)[]
    this.#bodyAt = table.body ? this.#fields.indexOf(table.body.field) : -1
    this.#names = this.#fields.map((field, at) => (at === this.#bodyAt ? 'ciphertext' : columnName(table, field)))
    this.#put = this.#prepare(putSql(table))
  }

  put(row: Row): void {
    const values = this.#values(this.#fields, row)
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
    const bodies = this.#bodies
    if (!bodies) return (key, changed) => statement.run(...this.#values(fields, changed), ...key).changes > 0
    const ends = fields.some((field) => field === this.#table.body?.until)
    return (key, changed) => {
      const body = statement.get(...this.#values(fields, changed), ...key)
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
    for (const body of statement.all(...key)) if (body !== null) this.#bodies.release(body)
  }

  all(): readonly Row[] {
    const found = this.#database.prepare<SqlRow>(allSql(this.#table)).all()
    return found.map((row) => this.#read(row))
  }

  page(start: Key, after: Value, limit: number): readonly Row[] {
    const statement = (this.#pages[start.length] ??= this.#database.prepare(pageSql(this.#table, start.length)))
    return statement.all(...start, after, limit).map((row) => this.#read(row))
  }

  sums(field: keyof Row & string): ReadonlyMap<string, number> {
    const table = this.#table
    const by = columnName(table, table.key[0] ?? '')
    const sql = `SELECT ${by} AS part, sum(${columnName(table, field)}) AS total FROM ${table.name} GROUP BY 1`
    const found = this.#database.prepare<{ readonly part: string; readonly total: number }>(sql).all()
    return new Map(found.map(({ part, total }) => [part, total]))
  }

  /** With bodies, all statements but those that read rows return the number of a body. */
  #prepare<Result>(sql: string): Statement<Result> {
    const statement = this.#database.prepare<Result>(sql)
    return this.#bodies ? statement.pluck() : statement
  }

  #values<Field extends keyof Row & string>(fields: readonly Field[], row: Pick<Row, Field>): Value[] {
    return fields.map((field) => this.#table.columns[field].write(row[field]))
  }

  #read(row: SqlRow): Row {
    const read: Partial<Row> = {}
    for (const [at, field] of this.#fields.entries()) {
      const column = this.#names[at] ?? field
      read[field] = this.#table.columns[field].read(row[column], column)
    }
    return read as Row
  }
}

/** Inserts, or updates in place: a REPLACE would delete first, and with the row all that belongs to it. */
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
  const end = table.body ? ` AND ${bodyOf(table)} IS NOT NULL RETURNING body` : ''
  return `UPDATE ${table.name} SET ${set} WHERE ${keyIs(table, table.key.length)}${end}`
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
