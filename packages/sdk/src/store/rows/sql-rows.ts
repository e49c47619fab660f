/** Reads the rows of a table in SQLite. Statements are generated from the table's description. */
import type { Database, Statement, Value } from '../sqlite.ts'
import {
  type Backwards,
  bodyOf,
  type Column,
  columnName,
  type Key,
  keyIs,
  type ReadsOf,
  type RowReads,
  type Table,
  type TableDeclaration,
  type Totals,
} from './table.ts'

/** A row as SQLite returns it: values by column. */
type SqlRow = Readonly<Record<string, unknown>>

/** A field of a row and its column. */
interface Place<Row> {
  readonly field: keyof Row & string
  /** Name of the column in query results. */
  readonly name: string
  readonly read: Column<Row[keyof Row & string]>['read']
}

/** Gives read access to the rows of each table. */
export function openRows(database: Database): ReadsOf {
  return (table) => new SqlRows(database, table)
}

class SqlRows<Row> implements RowReads<Row> {
  readonly #database: Database
  readonly #table: Table<Row>
  readonly #places: readonly Place<Row>[]
  readonly #pages: Statement<SqlRow>[] = []
  /** By the fields that are read. */
  readonly #backs = new Map<string, Statement<SqlRow>>()

  constructor(database: Database, table: Table<Row>) {
    this.#database = database
    this.#table = table
    this.#places = (Object.keys(table.columns) as (keyof Row & string)[]).map((field) => placeOf(table, field))
  }

  all(): readonly Row[] {
    return this.#read(this.#database.prepare<SqlRow>(allSql(this.#table)).all())
  }

  page(start: Key, after: Value, limit: number): readonly Row[] {
    const statement = (this.#pages[start.length] ??= this.#database.prepare(pageSql(this.#table, start.length)))
    return this.#read(statement.all(...start, after, limit))
  }

  back<Field extends keyof Row & string>(fields: readonly Field[], of: Backwards): readonly Pick<Row, Field>[] {
    const { start, before, limit } = of
    const sql = backSql(this.#table, fields, start.length)
    const statement = this.#backs.get(sql) ?? this.#database.prepare(sql)
    this.#backs.set(sql, statement)
    const places = fields.map((field) => placeOf(this.#table, field))
    return this.#read(statement.all(...start, before, limit), places)
  }

  totals(field: keyof Row & string): ReadonlyMap<string, Totals> {
    const table = this.#table
    const by = columnName(table, table.key[0] ?? '')
    const sum = `sum(${columnName(table, field)})`
    const sql = `SELECT ${by} AS part, count(*) AS rows, ${sum} AS sum FROM ${table.name} GROUP BY 1`
    const found = this.#database.prepare<Totals & { readonly part: string }>(sql).all()
    return new Map(found.map(({ part, rows, sum: total }) => [part, { rows, sum: total }]))
  }

  #read(rows: readonly SqlRow[], places: readonly Place<Row>[] = this.#places): readonly Row[] {
    return rows.map((row) => {
      const fields: Partial<Row> = {}
      for (const { field, name, read } of places) fields[field] = read(row[name], name)
      return fields as Row
    })
  }
}

function placeOf<Row>(table: Table<Row>, field: keyof Row & string): Place<Row> {
  const { read } = table.columns[field]
  return { field, name: field === table.body?.field ? 'ciphertext' : columnName(table, field), read }
}

function allSql(table: TableDeclaration): string {
  return `${selectSql(table)} ORDER BY ${table.key.map((field) => columnName(table, field)).join(', ')}`
}

function pageSql(table: TableDeclaration, length: number): string {
  const [next = '', ...others] = table.key.slice(length).map((field) => columnName(table, field))
  const order = [next, ...others].join(', ')
  return `${selectSql(table)} WHERE ${keyIs(table, length)} AND ${next} > ? ORDER BY ${order} LIMIT ?`
}

/** For tables without a body. */
function backSql(table: TableDeclaration, fields: readonly string[], length: number): string {
  const [next = '', ...others] = table.key.slice(length).map((field) => columnName(table, field))
  const names = fields.map((field) => columnName(table, field)).join(', ')
  const order = [next, ...others].map((name) => `${name} DESC`).join(', ')
  return `SELECT ${names} FROM ${table.name} WHERE ${keyIs(table, length)} AND ${next} < ? ORDER BY ${order} LIMIT ?`
}

function selectSql({ name, ...table }: TableDeclaration): string {
  if (!table.body) return `SELECT * FROM ${name}`
  const join = table.body.until === undefined ? 'JOIN' : 'LEFT JOIN'
  return `SELECT ${name}.*, ciphertext FROM ${name} ${join} body ON number = ${bodyOf({ name, ...table })}`
}
