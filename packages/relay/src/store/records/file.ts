/**
 * Files as rows, the same in SQLite and PostgreSQL. The checksum covers what decides about a file except for its end,
 * which the deletion of a channel sets for all its files at once.
 */
import { fromHex, toHex } from '@static/protocol'
import type { Time } from '../../ports.ts'
import { intact, sealed } from '../checksum.ts'
import type { FileRecord } from '../ledger/rows/files.ts'

const AGENT_BYTES = 32

/** The part of a row that its checksum covers. */
type Covered = readonly [
  key: string,
  channel: number,
  sender: Uint8Array,
  guest: 0 | 1,
  size: number,
  entry: number | null,
  parts: Uint8Array,
  checksums: Uint8Array,
  dropped: Uint8Array,
]

/** A row of `files`, without its bytes of room. */
export type FileRow = readonly [...Covered, checksum: number, expiresAt: Time]

/** The columns of `FileRow`, in order. */
export const FILE_COLUMNS = 'key, channel, sender, guest, size, entry, parts, checksums, dropped, checksum, expires_at'

export function fileRow(file: FileRecord): FileRow {
  const { key, channel, sender, guest, size, index, parts, checksums, dropped, expiresAt } = file
  const state = [index ?? null, parts, checksums, fromHex(dropped.join(''))] as const
  const covered: Covered = [key, channel, fromHex(sender), guest ? 1 : 0, size, ...state]
  return [...sealed(covered), expiresAt]
}

/** Throws `store_corrupt` if it is damaged. */
export function readFile(row: readonly unknown[]): FileRecord {
  const covered = intact(row.slice(0, -1), `file ${String(row[0])}`) as Covered
  const [key, channel, sender, guest, size, entry, parts, checksums, dropped] = covered
  const agents = toHex(dropped).match(new RegExp(`.{${2 * AGENT_BYTES}}`, 'g')) ?? []
  return {
    key,
    channel,
    sender: toHex(sender),
    guest: guest === 1,
    size,
    expiresAt: row.at(-1) as Time,
    index: entry ?? undefined,
    parts,
    checksums,
    dropped: agents,
  }
}
