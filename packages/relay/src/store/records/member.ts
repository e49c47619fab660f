/** Members as rows, the same in SQLite and PostgreSQL. */
import { fromHex, leaveBody, toHex } from '@static/protocol'
import type { Time } from '../../ports.ts'
import { readLeaveBody } from '../ledger/log/entry-body.ts'
import type { Ending, Member } from '../ledger/state.ts'

/** How a membership ended, at the end of its row. */
type EndingRow = readonly [
  endedIndex: number | null,
  endedHash: Uint8Array | null,
  endedSlot: number | null,
  endedAt: Time | null,
  notice: Uint8Array | null,
  pending: 0 | 1,
]

/** A row of `members`, without its channel's number. */
export type MemberRow = readonly [
  channelId: Uint8Array,
  agent: Uint8Array,
  added: number,
  sponsor: Uint8Array | null,
  vouched: number | null,
  welcomed: 0 | 1,
  cursorIndex: number,
  cursorHash: Uint8Array,
  cursorSlot: number,
  receipt: Uint8Array | null,
  welcome: number | null,
  earlier: number | null,
  ...ending: EndingRow,
]

export function readMember(row: MemberRow): Member {
  const [, agent, from, sponsor, vouched, welcomed, cursorIndex, cursorHash, cursorSlot, ...rest] = row
  const [receipt, welcome, earlier, ...ending] = rest
  return {
    agent: toHex(agent),
    from,
    sponsor: sponsor === null ? undefined : toHex(sponsor),
    vouched: vouched ?? undefined,
    welcomed: welcomed === 1,
    cursor: { index: cursorIndex, hash: cursorHash, slot: cursorSlot },
    receipt: receipt ?? undefined,
    welcome: welcome ?? undefined,
    earlier: earlier ?? undefined,
    ended: readEnding(ending),
  }
}

function readEnding([index, hash, slot, at, notice, pending]: EndingRow): Ending | undefined {
  if (index === null || hash === null || slot === null || at === null) return undefined
  return {
    position: { index, hash, slot },
    at,
    notice: notice === null ? undefined : readLeaveBody(notice),
    pending: pending === 1,
  }
}

export function memberRow(channelId: string, member: Member): MemberRow {
  const { agent, from, sponsor, vouched, welcomed, cursor, receipt, welcome, earlier, ended } = member
  return [
    fromHex(channelId),
    fromHex(agent),
    from,
    sponsor === undefined ? null : fromHex(sponsor),
    vouched ?? null,
    welcomed ? 1 : 0,
    cursor.index,
    cursor.hash,
    cursor.slot,
    receipt ?? null,
    welcome ?? null,
    earlier ?? null,
    ended?.position.index ?? null,
    ended?.position.hash ?? null,
    ended?.position.slot ?? null,
    ended?.at ?? null,
    ended?.notice ? leaveBody(ended.notice) : null,
    ended?.pending ? 1 : 0,
  ]
}
