/**
 * Rows that end with their checksum. It detects bit errors on disk, not tampering: the hash chain protects what agents
 * rely on.
 */
import { checksum, type Value } from '@static/node/checksum'
import { StaticError } from '@static/protocol'

export { checksum, type Value } from '@static/node/checksum'

/** Appends its checksum to a row. */
export function sealed<Row extends readonly Value[]>(row: Row): [...Row, number] {
  return [...row, checksum(row)]
}

/** The values of a row that ends with its checksum. Throws `store_corrupt` if it does not match or there is no row. */
export function intact(row: unknown, what: string): unknown {
  const values = [...((row as readonly Value[] | undefined) ?? [])]
  const sum = values.pop()
  if (sum === undefined || sum !== checksum(values)) throw damaged(what)
  return values
}

/** The error for stored data that was changed. */
export function damaged(what: string): StaticError {
  return StaticError.of('store_corrupt', `The store is damaged (${what}). Restore it from a backup.`)
}
