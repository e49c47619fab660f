/**
 * The description of a table of the agent's database (tables/). Its SQL declaration, the statements that write and read
 * it, and the same table in memory are all derived from it.
 */
import { PUBLIC_KEY_BYTES, StaticError } from '@static/protocol'
import { concatAll } from '../../platform/bytes.ts'
import type { Value } from '../sqlite.ts'

/** How a column is declared in SQL. */
export interface ColumnDeclaration {
  /** Its name in the database, unless that is the field's name in snake case. */
  readonly name?: string
  readonly type: 'TEXT' | 'INTEGER' | 'BLOB'
  readonly nullable?: true
  /** The rest of the declaration, such as a default or a check. */
  readonly extra?: string
}

/**
 * A column that holds a field of this type. It must not write a value that it cannot read, because every start would
 * fail.
 */
export interface Column<Field> extends ColumnDeclaration {
  readonly write: (field: Field) => Value
  /** Throws `store_corrupt` for a value that this column cannot have. */
  readonly read: (value: unknown, column: string) => Field
}

/** A table, without the type of its rows. */
export interface TableDeclaration {
  readonly name: string
  /** By field, in the order of the database. */
  readonly columns: Readonly<Record<string, ColumnDeclaration>>
  readonly key: readonly string[]
  /** The table of the row that a row belongs to and is deleted with, and the fields that hold that row's key. */
  readonly parent?: { readonly table: string; readonly by: readonly string[] }
  /** Its key is SQLite's rowid. */
  readonly rowid?: true
  /** Rows can be large. SQLite then keeps them apart from their keys; otherwise a search reads whole rows. */
  readonly large?: true
  /** The field that is stored apart, in the table `body`, and the field that ends it when set. */
  readonly body?: { readonly field: string; readonly until?: string }
  /** Most rows are dropped before they are written. The same is true of tables with bodies. */
  readonly brief?: true
}

/** A table of rows of this type. */
export interface Table<Row> extends TableDeclaration {
  readonly columns: { readonly [Field in keyof Row & string]-?: Column<Row[Field]> }
  readonly key: readonly (keyof Row & string)[]
  readonly parent?: { readonly table: string; readonly by: readonly (keyof Row & string)[] }
  readonly body?: { readonly field: keyof Row & string; readonly until?: keyof Row & string }
}

/** A key of a row, or its first parts. */
export type Key = readonly Value[]

/** Changes the rows of one table. */
export interface RowWrites<Row> {
  /** Inserts a row, or replaces the one with the same key. Throws if the row that it belongs to does not exist. */
  put(row: Row): void
  /**
   * Prepares a change of some fields of an existing row. The change returns whether the row exists. It does not apply
   * to a row whose body has ended.
   */
  change<Field extends keyof Row & string>(...fields: readonly Field[]): (key: Key, values: Pick<Row, Field>) => boolean
  /** Deletes the rows whose key starts with these parts, with everything that belongs to them. */
  drop(...key: Key): void
}

/** Reads the rows of one table. */
export interface RowReads<Row> {
  /** All rows, ordered by key. */
  all(): readonly Row[]
  /** The next rows whose key starts with these parts, after a value of the following part. */
  page(start: Key, after: Value, limit: number): readonly Row[]
  /** Some fields of rows, backwards. */
  back<Field extends keyof Row & string>(fields: readonly Field[], of: Backwards): readonly Pick<Row, Field>[]
  /** The number of rows and the sum of a field, by the first part of the key. */
  totals(field: keyof Row & string): ReadonlyMap<string, Totals>
}

/** The last rows whose key starts with these parts, before a value of the following part. */
export interface Backwards {
  readonly start: Key
  readonly before: Value
  readonly limit: number
}

/** A number of rows, and the sum of one of their fields. */
export interface Totals {
  readonly rows: number
  readonly sum: number
}

/** Gives write access to a table. */
export type WritesOf = <Row>(table: Table<Row>) => RowWrites<Row>
/** Gives read access to a table. */
export type ReadsOf = <Row>(table: Table<Row>) => RowReads<Row>

export const TEXT: Column<string> = { type: 'TEXT', write: (text) => text, read: readText }

export const OPTIONAL_TEXT: Column<string | undefined> = {
  type: 'TEXT',
  nullable: true,
  write: (text) => text ?? null,
  read: (value, column) => (value === null ? undefined : readText(value, column)),
}

export const INTEGER: Column<number> = { type: 'INTEGER', write: (number) => number, read: readInteger }

export const FLAG: Column<boolean> = {
  type: 'INTEGER',
  write: Number,
  read: (value, column) => readInteger(value, column) !== 0,
}

export const BYTES: Column<Uint8Array> = { type: 'BLOB', write: (bytes) => bytes, read: readBytes }

export const OPTIONAL_BYTES: Column<Uint8Array | undefined> = {
  type: 'BLOB',
  nullable: true,
  write: (bytes) => bytes ?? null,
  read: (value, column) => (value === null ? undefined : readBytes(value, column)),
}

/** A column with keys of 32 bytes, one after the other. */
export const KEYS: Column<readonly Uint8Array[]> = {
  type: 'BLOB',
  write: (keys) => {
    const odd = keys.find(({ length }) => length !== PUBLIC_KEY_BYTES)
    if (odd) throw new StaticError('internal_error', `A key has ${odd.length} bytes, not ${PUBLIC_KEY_BYTES}.`)
    return concatAll(keys)
  },
  read: (value, column) => {
    const bytes = readBytes(value, column)
    if (bytes.length % PUBLIC_KEY_BYTES !== 0) unexpected(column)
    const count = bytes.length / PUBLIC_KEY_BYTES
    return Array.from({ length: count }, (_, at) => bytes.slice(at * PUBLIC_KEY_BYTES, (at + 1) * PUBLIC_KEY_BYTES))
  },
}

/** A column with one of several strings. */
export function oneOf<Word extends string>(...words: readonly Word[]): Column<Word> {
  return {
    type: 'TEXT',
    write: (word) => word,
    read: (value, column) => words.find((word) => word === value) ?? unexpected(column),
  }
}

/** The name of a column in the database. For the separately stored field, the column with the body's number. */
export function columnName({ columns, body }: TableDeclaration, field: string): string {
  if (field === body?.field) return 'body'
  return columns[field]?.name ?? field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The fields of a table, in the order of its columns. */
export function fieldsOf(table: TableDeclaration): readonly string[] {
  return Object.keys(table.columns)
}

/** SQL condition: the key starts with this many given parts. */
export function keyIs(table: TableDeclaration, length: number): string {
  const parts = table.key.slice(0, length)
  return parts.map((field) => `${columnName(table, field)} = ?`).join(' AND ')
}

/** The number of a row's body; null once it has ended. */
export function bodyOf(table: TableDeclaration): string {
  const until = table.body?.until
  return until === undefined ? 'body' : `iif(${columnName(table, until)} IS NULL, body, NULL)`
}

function readText(value: unknown, column: string): string {
  return typeof value === 'string' ? value : unexpected(column)
}

function readInteger(value: unknown, column: string): number {
  return typeof value === 'number' ? value : unexpected(column)
}

/**
 * Returns a plain Uint8Array: `slice` makes a view of a Buffer but a copy of a Uint8Array, and secrets are wiped after
 * copying.
 */
function readBytes(value: unknown, column: string): Uint8Array {
  return value instanceof Uint8Array
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : unexpected(column)
}

/** The tables are STRICT, so this only happens if the file was changed without SQLite. */
function unexpected(column: string): never {
  throw new StaticError('store_corrupt', `The agent's database has an unexpected value in ${column}.`)
}
