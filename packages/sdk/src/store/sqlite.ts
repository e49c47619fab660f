/** The parts of better-sqlite3-multiple-ciphers used here. Its own type declarations are not in its export map. */
import { createRequire } from 'node:module'
import { StaticError } from '@static/protocol'

export type Value = string | number | Uint8Array | null

export interface Statement<Row = unknown> {
  run(...values: readonly Value[]): { readonly changes: number }
  get(...values: readonly Value[]): Row | undefined
  all(...values: readonly Value[]): Row[]
  /** Rows become arrays of their values. */
  raw(): this
  /** Rows become the values of their first column. */
  pluck(): this
}

export interface Database {
  readonly open: boolean
  readonly inTransaction: boolean
  key(key: Buffer): void
  pragma(source: string, options?: { readonly simple: boolean }): unknown
  prepare<Row = unknown>(sql: string): Statement<Row>
  exec(sql: string): void
  /** Every page, including free ones, decrypted. */
  serialize(): Buffer
  close(): void
}

interface Library {
  new (path: string, options: { readonly timeout: number }): Database
  readonly SqliteError: abstract new () => Error & { readonly code: string }
}

/**
 * The library is built for this version of Node-API. On an older one, it crashes the process instead of failing to
 * load.
 */
const NODE_API = 10
let loaded: Library | undefined

/**
 * Opens a database file without reading it. Throws `invalid_request` if this version of Node cannot run the library.
 */
export function openDatabase(path: string): Database {
  if (Number(process.versions.napi) < NODE_API) {
    throw new StaticError('invalid_request', `The agent's database needs Node 24 or newer; this is ${process.version}.`)
  }
  const require = createRequire(import.meta.url)
  loaded ??= require('better-sqlite3-multiple-ciphers') as Library
  return new loaded(path, { timeout: 0 })
}

/** SQLite's name of an error, such as SQLITE_BUSY; undefined for other errors. */
export function sqliteCode(error: unknown): string | undefined {
  return loaded !== undefined && error instanceof loaded.SqliteError ? error.code : undefined
}
