/** A channel's log: chains entries in order of arrival, and reads only those that an agent may see. */
import { chainNext } from '@static/protocol'
import type { Entry, Gap, Position, StoreRequest, StoreResult } from '../../../ports.ts'
import { type Context, senderOf, touchSender } from '../context.ts'
import { type EntryDraft, placed } from './draft.ts'
import { hold } from '../room/room.ts'
import { ENTRY_OVERHEAD } from '../rows/log.ts'
import { readableStay } from '../members/roster.ts'
import { type Channel, type Member, findMember } from '../state.ts'

/** Number of recent positions kept in memory: members mostly acknowledge what was just delivered. */
const RECENT = 64
const NOTHING = new Uint8Array()

/** Chains and stores an entry and emits an event. `body` is what the chain covers. */
export function addEntry(context: Context, channel: Channel, draft: EntryDraft, body: Uint8Array): Position {
  const { hash, rows, retention } = context
  const index = channel.last.index + 1
  const sender = senderOf(channel, draft.sender)
  const position: Position = {
    index,
    hash: chainNext(hash, channel.last.hash, {
      kind: draft.kind,
      sender: sender.agentBytes,
      messageId: draft.kind === 'leave' ? NOTHING : draft.messageId,
      bodyHash: hash(body),
    }),
    slot: draft.kind === 'commit' ? draft.slot + 1 : draft.slot,
  }
  const entry = placed(draft, index, position.hash)
  rows.log.add(channel, entry, body)

  const size = body.length + ENTRY_OVERHEAD
  sender.bytes += size
  sender.entries += 1
  sender.seen = index
  touchSender(context, channel, sender)
  channel.last = position
  channel.lastAt = draft.at
  if (channel.oldestAt === undefined) {
    channel.oldestAt = draft.at
    channel.due = Math.min(channel.due ?? Infinity, draft.at + retention.entryMs)
  }
  hold(context, channel, size)
  channel.recent.push(position)
  if (channel.recent.length > 2 * RECENT) channel.recent.splice(0, RECENT)
  context.emit({ type: 'appended', channel: channel.id, entry })
  return position
}

/** The position of an entry; undefined if it was dropped, or does not exist yet. */
export function positionAt({ rows }: Context, channel: Channel, index: number): Position | undefined {
  const { last, base, recent } = channel
  if (index === last.index) return last
  if (index === base.index) return base
  if (index < base.index || index > last.index) return undefined
  const first = recent[0]
  if (first && index >= first.index) return recent[index - first.index]
  return rows.log.position(channel, index)
}

/** Reads entries after an index. If some were dropped, the gap comes first. */
export function read(
  context: Context,
  { channel: id, agent, after, maxBytes, maxEntries }: StoreRequest<'read'>,
): StoreResult<'read'> {
  const { rows } = context
  const channel = rows.channels.get(id)
  const known = channel && findMember(channel, agent)
  const member = known && readableStay(rows, channel, known)
  // Look for a missing member again in another way: a damaged store must not claim that a member is not one.
  if (!known) rows.channels.glance(id, agent)
  if (!channel || !member) return { entries: [], gap: undefined, last: after, ended: true, from: undefined }

  const end = member.ended?.position ?? channel.last
  const start = Math.max(after, member.from)
  const gap = gapAfter(context, channel, member, start, end)
  const entries: Entry[] = []
  let bytes = 0
  const from = gap?.position ?? (start < end.index ? startAt(context, channel, member, start) : undefined)
  for (const entry of from ? rows.log.entries(channel, from, end.index) : []) {
    bytes += bodyLength(entry)
    if (entries.length > 0 && bytes > maxBytes) break
    entries.push(entry)
    if (entries.length >= maxEntries) break
  }
  return { entries, gap, last: end.index, ended: member.ended !== undefined, from: member.from }
}

function startAt(context: Context, channel: Channel, { cursor }: Member, index: number): Position | undefined {
  return cursor.index === index ? cursor : positionAt(context, channel, index)
}

function gapAfter(context: Context, channel: Channel, member: Member, start: number, end: Position): Gap | undefined {
  const position = end.index < channel.base.index ? end : channel.base
  if (start >= position.index) return undefined
  const commitLost = isCommitLost(context, channel, member, start, position)
  const ended = member.ended !== undefined
  return { first: start + 1, position, commitLost, ended, last: ended && position.index === end.index }
}

/** Whether there is a commit after `start`, up to the position. True if that is no longer known. */
function isCommitLost(
  { rows }: Context,
  channel: Channel,
  { cursor }: Member,
  start: number,
  position: Position,
): boolean {
  if (start === cursor.index) return position.slot !== cursor.slot
  if (channel.firstSlot > 0) {
    const oldest = rows.slots.get(channel, channel.firstSlot)
    if (!oldest || oldest.position.index > start) return true
  }
  const next = rows.slots.commitAfter(channel, start)
  return next !== undefined && next <= position.index
}

function bodyLength(entry: Entry): number {
  if (entry.kind === 'message') return entry.ciphertext.length
  // Rare compared with messages; their declarations and notices are small.
  return entry.kind === 'commit' ? entry.commit.length : entry.notice.signature.length
}
