/** Reads channels with their members and senders, and checks them. */
import { toHex } from '@static/protocol'
import type { ChannelId } from '../../../ports.ts'
import { type Channel, type Member, type Sender, lowestCursor, placeMember } from '../../ledger/state.ts'
import { damaged, intact } from '../../sqlite/checksum.ts'
import { type ChannelRow, type MemberRow, type SenderRow, readMember, readSender } from '../../sqlite/records.ts'
import type { Row, Statement } from '../session.ts'
import { type Transaction, ask } from '../write.ts'
import type { Kept } from './channel-cache.ts'
import { ENDS, MEMBERS, SENDERS } from './channel-statements.ts'
import type { LogTable } from './log.ts'

/** What is needed to read channels. */
export interface Loading {
  readonly transaction: Transaction
  readonly log: LogTable
  /** Damage makes only its own channel unusable. */
  readonly guard: (id: ChannelId, read: () => void) => void
}

/** Reads members, senders and the end of the log of channels. */
export async function loadChannels({ transaction, log, guard }: Loading, stale: readonly Kept[]): Promise<void> {
  if (stale.length === 0) return
  const byNumber = new Map(stale.map(({ channel }) => [channel.number, channel]))
  const ended = [...byNumber.values()].filter(({ last, base }) => last.index > base.index)
  const read = (one: Statement, ...values: unknown[][]): Promise<Row[]> => ask(transaction, one, values)
  const [members, senders, ends] = await Promise.all([
    read(MEMBERS, [...byNumber.keys()]),
    read(SENDERS, [...byNumber.keys()]),
    read(
      ENDS,
      ended.map(({ number }) => number),
      ended.map(({ last }) => last.index),
    ),
  ])
  const endOf = new Map(ends.map((row) => [row[0] as number, row]))
  const membersOf = Map.groupBy(members, ([number]) => number as number)
  const sendersOf = Map.groupBy(senders, ([number]) => number as number)
  for (const channel of byNumber.values()) {
    const { id, number } = channel
    guard(id, () => {
      if (!log.isEnd(channel, endOf.get(number))) throw damaged(`the end of channel ${id}`)
      placeMembers(channel, membersOf.get(number) ?? [])
      for (const [, ...row] of sendersOf.get(number) ?? []) {
        const sender = toSender(row)
        channel.senders.set(sender.agent, sender)
      }
    })
  }
}

/** Reads the members of channels whose other records are current. */
export async function loadMembers({ transaction, guard }: Loading, aged: readonly Kept[]): Promise<void> {
  if (aged.length === 0) return
  const rows = await ask(transaction, MEMBERS, [aged.map(({ channel }) => channel.number)])
  const membersOf = Map.groupBy(rows, ([number]) => number as number)
  for (const kept of aged) {
    const { channel } = kept
    channel.members.clear()
    channel.former.clear()
    guard(channel.id, () => placeMembers(channel, membersOf.get(channel.number) ?? []))
    kept.membersAt = performance.now()
  }
}

function placeMembers(channel: Channel, rows: readonly Row[]): void {
  for (const [, ...row] of rows) placeMember(channel, toMember(row))
  channel.acked = lowestCursor(channel)
}

/** A channel's row. */
export function intactChannel(row: Row): ChannelRow {
  return intact(row, `channel ${toHex(row[0] as Uint8Array)}`) as ChannelRow
}

/** A member's row. */
export function toMember(row: Row): Member {
  return readMember(intact(row, 'a member') as MemberRow)
}

/** A sender's row. */
export function toSender(row: Row): Sender {
  return readSender(intact(row, 'a sender') as SenderRow)
}
