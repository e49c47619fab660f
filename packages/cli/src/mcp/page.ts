/** Lists that fit into an answer. There can be more channels and members than a model should read at once. */
import { plainJson } from '../terminal/output.ts'
import { MOST_ANSWER_BYTES } from './answer.ts'

/** Room for the frame around the rows. */
const FRAME_BYTES = 64

/** The rows after a key, in the order of their keys, as many as fit. */
export function pageOf<Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
  after: string | number | undefined,
): { readonly rows: readonly Row[]; readonly more: boolean } {
  const sorted = rows
    .filter((row) => after === undefined || keyOf(row) > String(after))
    .sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
  let bytes = FRAME_BYTES
  let count = 0
  for (const row of sorted) {
    bytes += Buffer.byteLength(plainJson(row)) + 1
    if (bytes > MOST_ANSWER_BYTES) break
    count++
  }
  return { rows: sorted.slice(0, count), more: count < sorted.length }
}
