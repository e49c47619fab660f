/** One file as a value: its parts, and who may fetch it. */
import { filePartCount, fromHex, toHex } from '@static/protocol'
import type { AgentId, FileName, FileState, Time } from '../../../ports.ts'
import type { Context } from '../context.ts'
import type { FileRecord } from '../rows/files.ts'
import { type Channel, type Member, onRoster } from '../state.ts'

const KEY_BYTES = 16

/** Where the bytes of a file are. Agents choose its id, so the channel's is part of it: no one can name another's. */
export function fileKey({ hash }: Context, { channel, file }: FileName): string {
  return toHex(hash(fromHex(`${channel}${file}`)).subarray(0, KEY_BYTES))
}

/** The file with this name, unless it has ended. */
export function liveFile(context: Context, name: FileName, now: Time): FileRecord | undefined {
  const file = context.rows.files.get(fileKey(context, name))
  return file && file.expiresAt > now ? file : undefined
}

/** The record of a file without parts. */
export function newParts(size: number): Pick<FileRecord, 'parts' | 'checksums'> {
  const count = filePartCount(size)
  return { parts: new Uint8Array(Math.ceil(count / 8)), checksums: new Uint8Array(4 * count) }
}

/** The CRC-32 of a part; undefined if it is not stored. */
export function checksumOf({ parts, checksums }: FileRecord, part: number): number | undefined {
  if (((parts[part >> 3] ?? 0) & (1 << (part & 7))) === 0) return undefined
  return viewOf(checksums).getUint32(4 * part)
}

/** The file with one more part. */
export function withPart(file: FileRecord, part: number, checksum: number): FileRecord {
  const parts = file.parts.slice()
  const checksums = file.checksums.slice()
  parts[part >> 3] = (parts[part >> 3] ?? 0) | (1 << (part & 7))
  viewOf(checksums).setUint32(4 * part, checksum)
  return { ...file, parts, checksums }
}

/** Whether all parts are stored. */
export function isComplete(file: FileRecord): boolean {
  for (let part = filePartCount(file.size) - 1; part >= 0; part--) {
    if (checksumOf(file, part) === undefined) return false
  }
  return true
}

/** Whether a member was there when the file was sent, and since then: a later stay began with a later entry. */
export function isInAudience({ index, sender }: FileRecord, member: Member): boolean {
  return member.agent === sender || (index !== undefined && member.from < index)
}

/** Whether all that may fetch the file have dropped it. */
export function isDroppedByAll(file: FileRecord, channel: Channel, dropped: readonly AgentId[]): boolean {
  for (const member of channel.members.values()) {
    if (member.agent === file.sender || !onRoster(member) || !isInAudience(file, member)) continue
    if (!dropped.includes(member.agent)) return false
  }
  return true
}

export function stateOf({ size, parts, index, expiresAt }: FileRecord): FileState {
  return { size, parts, sent: index !== undefined, expiresAt }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}
