/** Stores new, deleted and changed channels with their members and senders. */
import { RECEIPT_BYTES } from '@static/protocol'
import { type Account, accountKey, type AgentId } from '../../../ports.ts'
import { checksum, sealed } from '../../checksum.ts'
import { type Channel, findMember } from '../../ledger/state.ts'
import { type ChangingColumns, type ChannelRow, channelRow, ownershipColumns } from '../../records/channel.ts'
import { memberRow } from '../../records/member.ts'
import { senderRow } from '../../records/sender.ts'
import type { HotChannel, HotSender } from '../hot-rows.ts'
import { type Row, statement } from '../session.ts'
import { Blob, type Transaction, bytea, columns, send } from '../write.ts'
import type { Kept } from './kept.ts'

const ADD =
  statement(`INSERT INTO channels (number, id, name, created_at, account, mode, owner, guest_limit, standby, ownership_slot,
  taken_slot, last_index, last_hash,
  head, last_at, base_index, base_hash, base_slot, bytes, oldest_at, guest_day, guest_count, unvouched_bytes, settled, first_slot,
  slot_at, hour, adds, commit_bytes, due, checksum)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
  $25, $26, $27, $28, $29, $30, $31)`)
const ADD_FOUNDING = statement('INSERT INTO foundings VALUES ($1, $2, $3)')
const DROP = [
  'DELETE FROM channels WHERE number = $1',
  'DELETE FROM foundings WHERE channel = $1',
  'DELETE FROM members WHERE channel = $1',
].map(statement)
const SET_OWNERSHIP = statement(`UPDATE channels
  SET account = $2, mode = $3, owner = $4, guest_limit = $5, standby = $6, ownership_slot = $7, taken_slot = $8
  WHERE number = $1`)
const ADD_DROPPED = statement('INSERT INTO dropped VALUES ($1, $2, $3, $4)')
const PUT_MEMBERS = statement(`INSERT INTO members SELECT channel, substr($1::bytea, channel_id, 16),
    substr($1, agent, 32), added, substr($1, sponsor, 32), vouched, welcomed, cursor_index, substr($1, cursor_hash, 32),
    cursor_slot, substr($1, receipt, ${RECEIPT_BYTES}), welcome, earlier, ended_index, substr($1, ended_hash, 32),
    ended_slot, ended_at, substr($1, notice, notice_length), pending, checksum
  FROM unnest($2::bigint[], $3::int[], $4::int[], $5::bigint[], $6::int[], $7::bigint[], $8::int[], $9::bigint[],
    $10::int[], $11::bigint[], $12::int[], $13::bigint[], $14::bigint[], $15::bigint[], $16::int[], $17::bigint[],
    $18::bigint[], $19::int[], $20::int[], $21::int[], $22::bigint[])
    u (channel, channel_id, agent, added, sponsor, vouched, welcomed, cursor_index, cursor_hash, cursor_slot, receipt, welcome,
    earlier, ended_index, ended_hash, ended_slot, ended_at, notice, notice_length, pending, checksum)
  ON CONFLICT (channel, agent) DO UPDATE SET added = excluded.added, sponsor = excluded.sponsor,
    vouched = excluded.vouched, welcomed = excluded.welcomed, cursor_index = excluded.cursor_index, cursor_hash = excluded.cursor_hash,
    cursor_slot = excluded.cursor_slot, receipt = excluded.receipt, welcome = excluded.welcome, earlier = excluded.earlier,
    ended_index = excluded.ended_index, ended_hash = excluded.ended_hash, ended_slot = excluded.ended_slot,
    ended_at = excluded.ended_at, notice = excluded.notice, pending = excluded.pending, checksum = excluded.checksum`)
const MEMBER_COLUMNS = 21
const DROP_MEMBERS = statement(`DELETE FROM members USING unnest($1::bigint[], $2::bytea[]) u (channel, agent)
  WHERE members.channel = u.channel AND members.agent = u.agent`)
const DROP_SENDERS = statement(`DELETE FROM senders USING unnest($1::bigint[], $2::bytea[]) u (channel, agent)
  WHERE senders.channel = u.channel AND senders.agent = u.agent`)
// Written once for many acknowledgements: the sweep resets it.
const MARK_ACKED = statement('UPDATE channels SET acked = true WHERE number = ANY($1::bigint[]) AND NOT acked')

/** The changes of a batch. */
export interface ChannelChanges {
  readonly changed: Set<Channel>
  /** Channels in which more than cursors has changed. */
  readonly raised: Set<Channel>
  /** New channels, each with the Welcome it was created with. */
  readonly created: Map<Channel, Uint8Array>
  /** By number. */
  readonly dropped: Map<number, Channel>
}

/** Sends everything but the rows of `hotRows`. */
export function writeChannels(
  transaction: Transaction,
  { changed, raised, created, dropped }: ChannelChanges,
  { keptOf, marksAcks }: { readonly keptOf: (channel: Channel) => Kept | undefined; readonly marksAcks: boolean },
): void {
  for (const { number, account, bytes } of dropped.values()) {
    for (const drop of DROP) send(transaction, drop, [number])
    send(transaction, ADD_DROPPED, [number, account.id, account.mode, bytes])
  }
  const live = [...new Set([...changed, ...created.keys()])].filter(({ number }) => !dropped.has(number))
  // A name is free for a new channel, or for one that is taken over, once the channel that had it has moved.
  for (const channel of inOrderOfMoves(live.filter((each) => each.changes.ownedBefore && !created.has(each)))) {
    send(transaction, SET_OWNERSHIP, [channel.number, ...ownershipColumns(channel)])
  }
  for (const [channel, welcome] of created) {
    if (dropped.has(channel.number)) continue
    send(transaction, ADD, [channel.number, ...sealed(channelRow(channel))])
    send(transaction, ADD_FOUNDING, [channel.number, ...sealed([welcome])])
  }
  writeMembers(transaction, live)
  const lost = live.flatMap((channel) =>
    missing(channel, channel.changes.senders, (agent) => channel.senders.has(agent)),
  )
  if (lost.length > 0) send(transaction, DROP_SENDERS, columns(lost, 2))
  const acked = live.filter(
    (channel) => !raised.has(channel) && keptOf(channel) && channel.last.index > channel.base.index,
  )
  if (marksAcks && acked.length > 0) send(transaction, MARK_ACKED, [acked.map(({ number }) => number)])
}

/**
 * Channels whose account may have changed, each after the one whose name it takes. A circle of them is left as it is: the
 * batch then conflicts, and its calls are retried one by one.
 */
function inOrderOfMoves(channels: readonly Channel[]): readonly Channel[] {
  const waiting = new Map(channels.map((channel) => [nameOf(channel, channel.changes.ownedBefore), channel]))
  const ordered: Channel[] = []
  for (let left = waiting.size + 1; waiting.size > 0 && waiting.size < left;) {
    left = waiting.size
    for (const [before, channel] of waiting) {
      const other = waiting.get(nameOf(channel))
      if (other && other !== channel) continue
      waiting.delete(before)
      ordered.push(channel)
    }
  }
  return [...ordered, ...waiting.values()]
}

function nameOf({ name, account }: Channel, owner: Account = account): string {
  return `${name} ${accountKey(owner)}`
}

function writeMembers(transaction: Transaction, channels: readonly Channel[]): void {
  const blob = new Blob()
  const rows = channels.flatMap((channel) =>
    [...channel.changes.members].flatMap((agent) => memberColumns(blob, channel, agent)),
  )
  if (rows.length > 0) send(transaction, PUT_MEMBERS, [blob.finish(), ...columns(rows, MEMBER_COLUMNS)])
  const lost = channels.flatMap((channel) =>
    missing(channel, channel.changes.members, (agent) => findMember(channel, agent) !== undefined),
  )
  if (lost.length > 0) send(transaction, DROP_MEMBERS, columns(lost, 2))
}

function missing(channel: Channel, agents: Iterable<AgentId>, has: (agent: AgentId) => boolean): Row[] {
  return [...agents].filter((agent) => !has(agent)).map((agent) => [channel.number, bytea(agent)])
}

function memberColumns(blob: Blob, channel: Channel, agent: AgentId): Row[] {
  const member = findMember(channel, agent)
  if (!member) return []
  const row = memberRow(channel.id, member)
  const [channelId, agentBytes, added, sponsor, vouched, welcomed, cursorIndex, cursorHash, cursorSlot, ...rest] = row
  const [receipt, welcome, earlier, endedIndex, endedHash, endedSlot, endedAt, notice, pending] = rest
  const put = (bytes: Uint8Array | null): number | null => (bytes === null ? null : blob.put(bytes))
  const cursor = [cursorIndex, blob.put(cursorHash), cursorSlot]
  const ending = [endedIndex, put(endedHash), endedSlot, endedAt, put(notice), notice?.length ?? null]
  return [
    [
      channel.number,
      blob.put(channelId),
      blob.put(agentBytes),
      added,
      put(sponsor),
      vouched,
      welcomed,
      ...cursor,
      put(receipt),
      welcome,
      earlier,
      ...ending,
      pending,
      checksum(row),
    ],
  ]
}

/** The rows of changed channels and senders for the statement of every message. */
export function hotRows(
  { changed, raised, created, dropped }: ChannelChanges,
  versionOf: (channel: Channel) => number,
): { readonly channels: readonly HotChannel[]; readonly senders: readonly HotSender[] } {
  const live = [...new Set([...changed, ...created.keys()])].filter(({ number }) => !dropped.has(number))
  return {
    channels: live
      .filter((channel) => raised.has(channel) && !created.has(channel))
      .map((channel) => {
        const row = channelRow(channel)
        return [channel.number, versionOf(channel), ...changingColumns(row), checksum(row)]
      }),
    senders: live.flatMap((channel) =>
      [...channel.changes.senders].flatMap((agent) => {
        const sender = channel.senders.get(agent)
        if (!sender) return []
        return [[channel.number, ...sealed(senderRow(sender))] as const]
      }),
    ),
  }
}

/** Without the first `FIXED_COLUMNS`. */
function changingColumns([, , , , , , , , , , ...rest]: ChannelRow): ChangingColumns {
  return rest
}
