/** What the relay delivers of a channel's log. */
import type { DeliverCommit, DeliverLeave, DeliverMessage, GapNotice } from '@static/protocol/relay'

/** An entry of the log, or a notice in its place. */
export type LogEntry =
  | { readonly case: 'deliverMessage'; readonly value: DeliverMessage }
  | { readonly case: 'deliverCommit'; readonly value: DeliverCommit }
  | { readonly case: 'deliverLeave'; readonly value: DeliverLeave }
  | { readonly case: 'gap'; readonly value: GapNotice }

/** The index of an entry; of a gap, its last one. */
export function lastIndexOf(entry: LogEntry): number {
  return Number(entry.case === 'gap' ? (entry.value.position?.index ?? 0n) : entry.value.index)
}

/** The bytes that an entry takes while it waits to be processed. */
export function sizeOf(entry: LogEntry): number {
  if (entry.case === 'deliverMessage') return entry.value.ciphertext.length
  return entry.case === 'deliverCommit' ? entry.value.commit.length : 0
}
