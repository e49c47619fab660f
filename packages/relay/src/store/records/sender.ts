/** Senders as rows, the same in SQLite and PostgreSQL. */
import { toHex } from '@static/protocol'
import type { Sender } from '../ledger/state.ts'

/** A row of `senders`, without its channel. */
export type SenderRow = readonly [
  agent: Uint8Array,
  counter: number,
  barred: 0 | 1,
  acted: 0 | 1,
  seen: number,
  hour: number,
  free: number,
  commitBytes: number,
  bytes: number,
  entries: number,
]

export function readSender(row: SenderRow): Sender {
  const [agent, counter, barred, acted, seen, hour, free, commitBytes, bytes, entries] = row
  const flags = { barred: barred === 1, acted: acted === 1 }
  return { agent: toHex(agent), agentBytes: agent, counter, ...flags, seen, hour, free, commitBytes, bytes, entries }
}

export function senderRow(sender: Sender): SenderRow {
  const { agentBytes, counter, barred, acted, seen, hour, free, commitBytes, bytes, entries } = sender
  return [agentBytes, counter, barred ? 1 : 0, acted ? 1 : 0, seen, hour, free, commitBytes, bytes, entries]
}
