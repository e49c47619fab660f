/** Reads channels with their members and senders, and checks them. */
import { toHex } from '@static/protocol'
import type { ChannelId } from '../../../ports.ts'
import { damaged, intact } from '../../checksum.ts'
import { type Channel, type Member, type Sender, findMember, lowestCursor, placeMember } from '../../ledger/state.ts'
import type { ChannelRow } from '../../records/channel.ts'
import { type MemberRow, readMember } from '../../records/member.ts'
import { type SenderRow, readSender } from '../../records/sender.ts'
import type { Row, Statement } from '../session.ts'
import { type Transaction, ask, bytea } from '../write.ts'
import type { Kept } from './kept.ts'
import { CHANNEL_COLUMNS, MEMBERS, PARTS, READ_ENDS } from './channel-statements.ts'
import type { LogTable } from './log.ts'

/** The context for reading channels. */
export interface Loading {
  readonly transaction: Transaction
  readonly log: LogTable
  /** Damage makes only its own channel unusable. */
  readonly guard: (id: ChannelId, read: () => void) => void
}

/** The rows of members and senders, and of the last entries, of some channels. */
export interface ChannelParts {
  readonly ids: ReadonlySet<ChannelId>
  readonly members: readonly Row[]
  readonly senders: readonly Row[]
  readonly ends: readonly Row[]
}

export async function readParts(transaction: Transaction, ids: readonly ChannelId[]): Promise<ChannelParts> {
  const values = [ids.map(bytea)]
  const read = async (one: Statement): Promise<Row[]> => (ids.length === 0 ? [] : ask(transaction, one, values))
  const [members, senders, ends] = await Promise.all([read(PARTS[0]), read(PARTS[1]), read(PARTS[2])])
  return { ids: new Set(ids), members, senders, ends }
}

/**
 * Reads rows of `READ` and their parts. Members and senders may be read later than the channel: if they have changed
 * since, so has its version.
 */
export async function readEnds(
  transaction: Transaction,
  ids: readonly ChannelId[],
): Promise<{ readonly rows: readonly Row[]; readonly parts: ChannelParts }> {
  const values = [ids.map(bytea)]
  const [all, members, senders] = await Promise.all([
    ask(transaction, READ_ENDS, values),
    ask(transaction, PARTS[0], values),
    ask(transaction, PARTS[1], values),
  ])
  const end = 2 + CHANNEL_COLUMNS
  const ends = all.filter((row) => row[end] !== null).map((row) => [row[0], ...row.slice(end)])
  return { rows: all.map((row) => row.slice(0, end)), parts: { ids: new Set(ids), members, senders, ends } }
}

/** Whether members and senders were read later than the channel, when its log was longer. */
export function isTorn({ last, members, former, senders }: Channel): boolean {
  const isLater = (index: number | undefined): boolean => index !== undefined && index > last.index
  const isLaterMember = ({ from, cursor, ended }: Member): boolean =>
    isLater(from) || isLater(cursor.index) || isLater(ended?.position.index)
  return (
    [...members.values(), ...former.values()].some(isLaterMember) ||
    [...senders.values()].some(({ seen }) => isLater(seen))
  )
}

/** Completes channels; reads the parts that were not read with the channels themselves. */
export async function loadChannels(loading: Loading, stale: readonly Kept[], early: ChannelParts): Promise<void> {
  const isRead = ({ channel: { id } }: Kept): boolean => early.ids.has(id)
  completeChannels(loading, stale.filter(isRead), early)
  const rest = stale.filter((kept) => !isRead(kept))
  const ids = rest.map(({ channel }) => channel.id)
  completeChannels(loading, rest, await readParts(loading.transaction, ids))
}

/** Completes channels from parts that were read with them. */
export function completeChannels(
  { log, guard }: Loading,
  stale: readonly Kept[],
  { members, senders, ends }: ChannelParts,
): void {
  const endOf = new Map(ends.map((row) => [row[0] as number, row]))
  const membersOf = Map.groupBy(members, ([number]) => number as number)
  const sendersOf = Map.groupBy(senders, ([number]) => number as number)
  for (const { channel } of stale) {
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

/** Applies cursors and receipts that other nodes have moved, in the channels that `known` returns. */
export function moveCursors(rows: readonly Row[], known: (id: ChannelId) => Channel | undefined): void {
  for (const [, ...row] of rows) {
    const { agent, cursor, receipt } = toMember(row)
    const channel = known(toHex(row[0] as Uint8Array))
    const member = channel && findMember(channel, agent)
    if (member) member.receipt = receipt
    if (!channel || !member || member.cursor.index >= cursor.index) continue
    member.cursor = cursor
    channel.lag = undefined
    channel.awaited = undefined
    channel.acked = lowestCursor(channel)
  }
}

function placeMembers(channel: Channel, rows: readonly Row[]): void {
  for (const [, ...row] of rows) placeMember(channel, toMember(row))
  channel.acked = lowestCursor(channel)
}

export function intactChannel(row: Row): ChannelRow {
  return intact(row, `channel ${toHex(row[0] as Uint8Array)}`) as ChannelRow
}

export function toMember(row: Row): Member {
  return readMember(intact(row, 'a member') as MemberRow)
}

export function toSender(row: Row): Sender {
  return readSender(intact(row, 'a sender') as SenderRow)
}
