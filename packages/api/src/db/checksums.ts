/**
 * Checksums of the rows that decide something: who may enter, which limits an account has, which key signs. A row that
 * does not match is damaged and is never used. Requests that need it fail, and all others continue. Names, e-mail
 * addresses as typed, statistics and the audit log decide nothing and are not covered.
 */
import { checksum, type Value } from '@static/node/checksum'
import { StaticError } from '@static/protocol'
import type { Schema } from './schema.ts'

interface CoveredColumns {
  accounts: 'id' | 'email_key' | 'password_hash' | 'plan' | 'status'
  api_keys: 'id' | 'account_id' | 'prefix' | 'mode' | 'hash' | 'revoked_at'
  sessions: 'id' | 'id_hash' | 'account_id' | 'expires_at'
  devices: 'id_hash' | 'account_id' | 'expires_at'
  links: 'selector' | 'secret_hash' | 'account_id' | 'expires_at'
  signing_keys: 'generation' | 'kid' | 'sealed' | 'active_from'
  usage_periods: 'account_id' | 'mode' | 'period' | 'used' | 'reserved'
  leases: 'id' | 'account_id' | 'mode' | 'period' | 'amount' | 'spent' | 'state' | 'expires_at' | 'by_key'
  idempotency: 'scope' | 'key' | 'fingerprint' | 'resource_id' | 'created_at'
  channel_deletions: 'id' | 'account_id' | 'mode' | 'name' | 'channel_id' | 'expires_at'
}

/** The columns that each table's checksum covers, in its order. */
const COVERED: { readonly [T in CoveredTable]: readonly CoveredColumns[T][] } = {
  accounts: ['id', 'email_key', 'password_hash', 'plan', 'status'],
  api_keys: ['id', 'account_id', 'prefix', 'mode', 'hash', 'revoked_at'],
  sessions: ['id', 'id_hash', 'account_id', 'expires_at'],
  devices: ['id_hash', 'account_id', 'expires_at'],
  links: ['selector', 'secret_hash', 'account_id', 'expires_at'],
  signing_keys: ['generation', 'kid', 'sealed', 'active_from'],
  usage_periods: ['account_id', 'mode', 'period', 'used', 'reserved'],
  leases: ['id', 'account_id', 'mode', 'period', 'amount', 'spent', 'state', 'expires_at', 'by_key'],
  idempotency: ['scope', 'key', 'fingerprint', 'resource_id', 'created_at'],
  channel_deletions: ['id', 'account_id', 'mode', 'name', 'channel_id', 'expires_at'],
}

const SQLITE_CORRUPT = 11
/** Data or an index is damaged: a page does not match its checksum. */
const POSTGRES_CORRUPT = /^XX00[12]$/

export type CoveredTable = keyof CoveredColumns
export const COVERED_TABLES: readonly CoveredTable[] = Object.keys(COVERED) as CoveredTable[]

/** Whether the rows of a table have checksums. */
export function isCovered(table: keyof Schema): table is CoveredTable {
  return Object.hasOwn(COVERED, table)
}

/** The covered columns of a row. */
type Covered<T extends CoveredTable> = Pick<Schema[T], CoveredColumns[T] & keyof Schema[T]>

/** The covered columns and the checksum. */
export type Checked<T extends CoveredTable> = Covered<T> & { readonly checksum: number }

/** The columns to select so that a row can be checked. */
export function coveredColumns(table: CoveredTable): readonly string[] {
  return [...COVERED[table], 'checksum']
}

/** The checksum of a row, which may have additional columns. */
export function checksumOf<T extends CoveredTable>(table: T, row: Covered<T>): number {
  const values = row as unknown as Readonly<Record<string, Value>>
  return checksum(COVERED[table].map((column) => values[column] ?? null))
}

/** The row with its checksum. */
export function sealed<T extends CoveredTable, Row extends Covered<T>>(table: T, row: Row): Row & { checksum: number } {
  return { ...row, checksum: checksumOf(table, row) }
}

/** The row, if it matches its checksum. Otherwise throws `store_corrupt`. */
export function intact<T extends CoveredTable, Row extends Checked<T>>(table: T, row: Row): Row {
  if (row.checksum !== checksumOf(table, row)) throw damaged(table, row)
  return row
}

/** Whether stored data is damaged: a row does not match its checksum, or the database cannot read a page. */
export function isDamage(error: unknown): boolean {
  if (error instanceof StaticError) return error.code === 'store_corrupt'
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown }
  return (typeof errcode === 'number' && errcode % 256 === SQLITE_CORRUPT) || POSTGRES_CORRUPT.test(String(code))
}

/** The rows that match their checksums; the others are passed to `report`. */
export function intactOf<T extends CoveredTable, Row extends Checked<T>>(
  table: T,
  rows: readonly Row[],
  report: DamageReport,
): Row[] {
  return rows.filter((row) => {
    const matches = row.checksum === checksumOf(table, row)
    if (!matches) report(damaged(table, row))
    return matches
  })
}

/** Receives the error for a damaged row that was left out. */
export type DamageReport = (error: Error) => void

/** Names the row by its public part: a session's id, a link's selector, never a hash. */
export function damaged(table: CoveredTable, row: object): StaticError {
  const { id, selector, generation, account_id: account } = row as Readonly<Record<string, string | number | undefined>>
  const name = id ?? selector ?? generation ?? account
  const which = name === undefined ? 'A row' : `Row ${name}`
  return StaticError.of('store_corrupt', `${which} of ${table} is damaged and was not used. Restore it from a backup.`)
}
