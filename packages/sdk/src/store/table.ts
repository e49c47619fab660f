/**
 * What a table of the agent's database is. Each is described once (tables/): its declaration in SQL, the statements that
 * write and read it, and the same table in memory follow from that description.
 */
import { PUBLIC_KEY_BYTES, StaticError } from '@static/protocol'
import type { Value } from './sqlite.ts'

/** How a column is declared in SQL. */
export interface ColumnDeclaration {
  /** Its name in the database, unless that is the field's in snake case. */
  readonly name?: string
  readonly type: 'TEXT' | 'INTEGER' | 'BLOB'
  readonly nullable?: true
  /** What follows in the declaration: a default, a check. */
  readonly extra?: string
}

/** A column that holds a field of this type. */
export interface Column<Field> extends ColumnDeclaration {
  readonly write: (field: Field) => Value
  /** Throws `store_corrupt` for what this column cannot hold. */
  readonly read: (value: unknown, column: string) => Field
}

/** A table, as far as it can be known without the type of its rows. */
export interface TableDeclaration {
  readonly name: string
  /** By field, in the order of the database. */
  readonly columns: Readonly<Record<string, ColumnDeclaration>>
  readonly key: readonly string[]
  /** The table of the row that a row belongs to and is deleted with, and the fields that hold the key of that row. */
  readonly parent?: { readonly table: string; readonly by: readonly string[] }
  /** Its key is SQLite's own row number. */
  readonly rowid?: true
  /** The field that is kept apart, in the table `body`, and the field that ends it by being set. */
  readonly body?: { readonly field: string; readonly until?: string }
}

/** A table of rows of this type. */
export interface Table<Row> extends TableDeclaration {
  readonly columns: { readonly [Field in keyof Row & string]-?: Column<Row[Field]> }
  readonly key: readonly (keyof Row & string)[]
  readonly parent?: { readonly table: string; readonly by: readonly (keyof Row & string)[] }
  readonly body?: { readonly field: keyof Row & string; readonly until?: keyof Row & string }
}

/** A key of a row, or the first parts of one. */
export type Key = readonly Value[]

/** The rows of one table, in a database or in memory. */
export interface Rows<Row> {
  /** Inserts a row, or replaces the one with its key. Throws if the row that it belongs to does not exist. */
  put(row: Row): void
  /**
   * Prepares a change of some fields of an existing row; the change says whether there was one. A row whose body has
   * ended counts as none.
   */
  change<Field extends keyof Row & string>(...fields: readonly Field[]): (key: Key, values: Pick<Row, Field>) => boolean
  /** Deletes the rows whose key begins like this, with all that belongs to them. */
  drop(...key: Key): void
  /** All rows, by key. */
  all(): readonly Row[]
  /** The next rows whose key begins like this, after a value of the part that follows. */
  page(start: Key, after: Value, limit: number): readonly Row[]
  /** The sum of a field, by the first part of the key. */
  sums(field: keyof Row & string): ReadonlyMap<string, number>
}

/** Gives access to the rows of a table. */
export type RowsOf = <Row>(table: Table<Row>) => Rows<Row>

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

/** Keys of 32 bytes, one after the other. */
export const KEYS: Column<readonly Uint8Array[]> = {
  type: 'BLOB',
  write: (keys) => Buffer.concat(keys),
  read: (value, column) => {
    const bytes = readBytes(value, column)
    if (bytes.length % PUBLIC_KEY_BYTES !== 0) unexpected(column)
    const count = bytes.length / PUBLIC_KEY_BYTES
    return Array.from({ length: count }, (_, at) => bytes.slice(at * PUBLIC_KEY_BYTES, (at + 1) * PUBLIC_KEY_BYTES))
  },
}

/** One of a few words. */
export function oneOf<Word extends string>(...words: readonly Word[]): Column<Word> {
  return {
    type: 'TEXT',
    write: (word) => word,
    read: (value, column) => words.find((word) => word === value) ?? unexpected(column),
  }
}

/** The name of a column in the database; for the field that is kept apart, of the one that holds its number there. */
export function columnName({ columns, body }: TableDeclaration, field: string): string {
  if (field === body?.field) return 'body'
  return columns[field]?.name ?? field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function readText(value: unknown, column: string): string {
  return typeof value === 'string' ? value : unexpected(column)
}

function readInteger(value: unknown, column: string): number {
  return typeof value === 'number' ? value : unexpected(column)
}

/** A plain Uint8Array: `slice` of a Buffer is a view, of a Uint8Array a copy, and secrets are wiped after copying. */
function readBytes(value: unknown, column: string): Uint8Array {
  return value instanceof Uint8Array
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : unexpected(column)
}

/** The tables are STRICT: only a change of the file's structure behind SQLite's back leads here. */
function unexpected(column: string): never {
  throw new StaticError('store_corrupt', `The agent's database holds something else than expected in ${column}.`)
}
