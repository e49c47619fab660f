/** Log entries as the relay delivers them. */
import type { DeliverCommit, DeliverLeave, DeliverMessage, GapNotice } from '@static/protocol/relay'

/** An entry of the log, or a notice of deleted entries. */
export type LogEntry =
  | { readonly case: 'deliverMessage'; readonly value: DeliverMessage }
  | { readonly case: 'deliverCommit'; readonly value: DeliverCommit }
  | { readonly case: 'deliverLeave'; readonly value: DeliverLeave }
  | { readonly case: 'gap'; readonly value: GapNotice }

/** The index of an entry, or the last index of a gap. */
export function lastIndexOf(entry: LogEntry): number {
  return Number(entry.case === 'gap' ? (entry.value.position?.index ?? 0n) : entry.value.index)
}

/** The bytes that an entry occupies while it is queued. */
export function sizeOf(entry: LogEntry): number {
  if (entry.case === 'deliverMessage') return entry.value.ciphertext.length
  return entry.case === 'deliverCommit' ? entry.value.commit.length : 0
}
