/** Files: their room, who may fetch them, and their end (SPEC.md, "Files"). */
import { storedFileBytes } from '@static/protocol'
import type { Actor, Done, FileName, Refusal, StoreRequest, StoreResult, Time } from '../../../ports.ts'
import { type Admitted, type Context, admit, isRefusal, noteAction, refuse } from '../context.ts'
import type { FileRecord } from '../rows/files.ts'
import type { Channel } from '../state.ts'
import { fileKey, isComplete, isDroppedByAll, isInAudience, liveFile, newParts, stateOf } from './file.ts'

/** Shares of an account's room for files that one channel may take, and of that, and of its files, the guests in it. */
const CHANNEL_SHARE = 3 / 4
const GUEST_SHARE = 1 / 4
/** How long ended files are left alone: the clocks of nodes differ, and a part may be on its way. */
const REST_MS = 10_000

/** A file that the actor may see, and the actor in its channel. */
export interface SeenFile extends Admitted {
  readonly file: FileRecord
}

/** Reserves the room of a file before its first byte. */
export function beginFile(context: Context, request: StoreRequest<'beginFile'>): StoreResult<'beginFile'> {
  const { rows } = context
  const { actor, size, limits, now } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  const key = fileKey(context, request)
  const known = rows.files.get(key)
  if (known) {
    if (known.sender !== actor.agent) return refuse('invalid_request', 'Another agent has used this `file_id`.')
    if (known.expiresAt <= now) return refuse('file_expired', 'This `file_id` was used before. Choose another one.')
    if (known.size !== size)
      return refuse('invalid_request', `The file was begun with ${known.size} bytes, not ${size}.`)
    return stateOf(known)
  }
  if (rows.files.countOpen(actor.agent, now) >= limits.open) {
    return refuse('rate_limited', `This agent has ${limits.open} unsent files. Send or drop one of them first.`)
  }
  const guest = actor.account === undefined
  const full = lackOfRoom(context, channel, storedFileBytes(size), guest, limits)
  if (full) return full
  noteAction(context, actor, channel)
  const expiresAt = now + limits.unsentMs
  const common = { key, channel: channel.number, sender: actor.agent, guest, size, expiresAt, index: undefined }
  const file: FileRecord = { ...common, ...newParts(size), dropped: [] }
  rows.files.add(file, channel)
  return stateOf(file)
}

/** Why a file does not fit; undefined if it does. */
function lackOfRoom(
  { rows }: Context,
  channel: Channel,
  bytes: number,
  guest: boolean,
  { accountBytes, perChannel }: StoreRequest<'beginFile'>['limits'],
): Refusal | undefined {
  const room = rows.files.room(channel)
  if (room.files >= perChannel) {
    return refuse('queue_full', `The channel has ${room.files} files, which is its limit. Wait until some were saved.`)
  }
  const mostOfGuests = Math.floor(GUEST_SHARE * perChannel)
  // Small files would take all places long before they fill the guests' room.
  if (guest && rows.files.countOfGuests(channel) >= mostOfGuests) {
    return refuse('queue_full', `Guests have ${mostOfGuests} files in this channel, which is their limit.`)
  }
  const limit = Math.min(rows.accounts.get(channel.account).fileBytes ?? Infinity, accountBytes)
  const own = Math.floor(CHANNEL_SHARE * limit)
  if (room.bytes + bytes > own) {
    return refuse(
      'queue_full',
      `The channel's files may take ${own} bytes and take ${room.bytes}; this one needs ${bytes}.`,
    )
  }
  const guests = Math.floor(GUEST_SHARE * own)
  if (guest && room.guestBytes + bytes > guests) {
    return refuse(
      'queue_full',
      `Files of guests may take ${guests} bytes in this channel and take ${room.guestBytes}; this one needs ${bytes}.`,
    )
  }
  const held = rows.files.bytesOf(channel.account)
  if (held + bytes <= limit) return undefined
  return refuse(
    'quota_exceeded',
    `The files of the owner's account may take ${limit} bytes and take ${held}; this one needs ${bytes}.`,
  )
}

export function fileStatus(context: Context, request: StoreRequest<'fileStatus'>): StoreResult<'fileStatus'> {
  const seen = seenFile(context, request, request.actor, request.now)
  return isRefusal(seen) ? seen : stateOf(seen.file)
}

/** A file that the actor may fetch or has begun itself, or why it may not. */
export function seenFile(context: Context, name: FileName, actor: Actor, now: Time): SeenFile | Refusal {
  const admitted = admit(context, actor, name.channel)
  if (isRefusal(admitted)) return admitted
  const file = liveFile(context, name, now)
  if (!file || (file.index === undefined && file.sender !== actor.agent)) return refuse('file_expired')
  if (!isInAudience(file, admitted.member)) {
    return refuse('not_allowed', 'This agent joined the channel after the file was sent.')
  }
  if (file.dropped.includes(actor.agent)) return refuse('file_expired', 'This agent has dropped the file.')
  return { ...admitted, file }
}

/** Why a message cannot name a file; undefined if it can. */
export function unsendable(context: Context, request: StoreRequest<'append'>): Refusal | undefined {
  const file = fileOf(context, request)
  if (request.file === undefined) return undefined
  if (!file || file.sender !== request.actor.agent) return refuse('file_expired')
  if (file.index !== undefined) return refuse('invalid_request', 'A message has already named this file.')
  return isComplete(file) ? undefined : refuse('file_incomplete')
}

/** Gives a file to the members: the message at this index names it. */
export function sendFile(context: Context, request: StoreRequest<'append'>, index: number): void {
  const file = fileOf(context, request)
  if (file && request.file) context.rows.files.change({ ...file, index, expiresAt: request.now + request.file.keptMs })
}

function fileOf(context: Context, { channel, file, now }: StoreRequest<'append'>): FileRecord | undefined {
  return file && liveFile(context, { channel, file: file.id }, now)
}

/** Ends a file for one member, for all, or because it was the last one that had not saved it. */
export function dropFile(context: Context, request: StoreRequest<'dropFile'>): Done | Refusal {
  const { actor, everyone, now } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel, member } = admitted
  const file = liveFile(context, request, now)
  if (!file) return { done: true }
  const end = (): Done => {
    context.rows.files.change({ ...file, expiresAt: now })
    return { done: true }
  }
  if (everyone) {
    const mayEnd = file.sender === actor.agent || channel.owner === actor.agent
    return mayEnd ? end() : refuse('not_allowed', 'Only the sender of a file and the owner of the channel delete it.')
  }
  if (file.sender === actor.agent || !isInAudience(file, member)) return { done: true }
  // Without former members, so that the list never has more than those of the channel.
  const others = file.dropped.filter((agent) => agent !== actor.agent && channel.members.has(agent))
  const dropped = [...others, actor.agent]
  if (isDroppedByAll(file, channel, dropped)) return end()
  context.rows.files.change({ ...file, dropped })
  return { done: true }
}

export function dueFiles({ rows }: Context, { now, limit }: StoreRequest<'dueFiles'>): StoreResult<'dueFiles'> {
  return { files: rows.files.due(now - REST_MS, limit) }
}

export function forgetFiles({ rows }: Context, { keys, now }: StoreRequest<'forgetFiles'>): Done {
  rows.files.forget(keys, now - REST_MS)
  return { done: true }
}

export function knownFiles({ rows }: Context, { keys }: StoreRequest<'knownFiles'>): StoreResult<'knownFiles'> {
  return { keys: rows.files.known(keys) }
}
