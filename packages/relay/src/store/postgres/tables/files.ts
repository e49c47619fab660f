/**
 * Files. Those of a channel are changed only under its lock, and begun under one that all nodes share, because the room
 * of an account and the open files of an agent span channels.
 */
import { filePartCount, storedFileBytes } from '@static/protocol'
import { type Account, accountKey, type AgentId, type DueFile, type Time } from '../../../ports.ts'
import type { FileRecord, FileRoom, FileRows } from '../../ledger/rows/files.ts'
import type { Channel } from '../../ledger/state.ts'
import { FILE_COLUMNS, fileRow, readFile } from '../../records/file.ts'
import { Facts, Missing, type Table } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask, bytea, send } from '../write.ts'

const FIND = statement(`SELECT ${FILE_COLUMNS} FROM files WHERE key = ANY($1::text[])`)
const ADD = statement(`WITH room AS (INSERT INTO file_rooms VALUES ($2, 1, $12::bigint, $4::bigint * $12::bigint)
    ON CONFLICT (channel) DO UPDATE SET files = file_rooms.files + 1, bytes = file_rooms.bytes + excluded.bytes,
    guest_bytes = file_rooms.guest_bytes + excluded.guest_bytes)
  INSERT INTO files (${FILE_COLUMNS}, bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`)
const CHANGE = statement(`UPDATE files SET entry = $2, parts = $3, checksums = $4, dropped = $5, checksum = $6,
  expires_at = $7 WHERE key = $1`)
const ROOM = statement('SELECT files, bytes, guest_bytes FROM file_rooms WHERE channel = $1')
const OF_GUESTS = statement('SELECT count(*)::bigint FROM files WHERE channel = $1 AND guest = 1')
const BYTES_OF =
  statement(`SELECT coalesce(sum(r.bytes), 0)::bigint FROM channels c JOIN file_rooms r ON r.channel = c.number
  WHERE c.account = $1 AND c.mode = $2`)
const OPEN = statement('SELECT count(*)::bigint FROM files WHERE sender = $1 AND entry IS NULL AND expires_at > $2')
const END_ALL = statement('UPDATE files SET expires_at = 0 WHERE channel = ANY($1::bigint[])')
const DUE = statement('SELECT key, size FROM files WHERE expires_at <= $1 ORDER BY expires_at, key LIMIT $2')
const FORGET = statement(`WITH gone AS (DELETE FROM files WHERE key = ANY($1::text[]) AND expires_at <= $2
    RETURNING channel, bytes, guest),
  freed AS (SELECT channel, count(*) AS files, sum(bytes) AS bytes, sum(guest * bytes) AS guest_bytes
    FROM gone GROUP BY channel)
  UPDATE file_rooms r SET files = r.files - freed.files, bytes = r.bytes - freed.bytes,
    guest_bytes = r.guest_bytes - freed.guest_bytes FROM freed WHERE r.channel = freed.channel`)
const FORGET_ROOMS = statement('DELETE FROM file_rooms WHERE files = 0')
const KNOWN = statement('SELECT key FROM files WHERE key = ANY($1::text[])')

/** A file that this batch begins. */
interface Added {
  readonly file: FileRecord
  readonly account: string
}

export class FileTable implements FileRows, Table {
  readonly #transaction: Transaction
  readonly #facts = new Facts()
  /** Null if there is none. */
  readonly #known = new Map<string, FileRecord | null>()
  readonly #added = new Map<string, Added>()
  readonly #changed = new Map<string, FileRecord>()
  /** The numbers of deleted channels. */
  readonly #ended = new Set<number>()
  #forgotten: readonly [keys: readonly string[], before: Time] | undefined

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
    this.#known.clear()
    this.rewind()
  }

  rewind(): void {
    this.#added.clear()
    this.#changed.clear()
    this.#ended.clear()
    this.#forgotten = undefined
  }

  get(key: string): FileRecord | undefined {
    const own = this.#changed.get(key) ?? this.#added.get(key)?.file
    if (own) return own
    const known = this.#known.get(key)
    if (known === undefined) throw new Missing(() => this.#fetch(key))
    return known ?? undefined
  }

  add(file: FileRecord, channel: Channel): void {
    this.#added.set(file.key, { file, account: accountKey(channel.account) })
  }

  change(file: FileRecord): void {
    this.#changed.set(file.key, file)
  }

  room({ number }: Channel): FileRoom {
    const stored = this.#facts.need(`room ${number}`, () => ask(this.#transaction, ROOM, [number]))
    let [files, bytes, guestBytes] = (stored[0] ?? [0, 0, 0]) as [number, number, number]
    for (const { file } of this.#added.values()) {
      if (file.channel !== number) continue
      files += 1
      bytes += storedFileBytes(file.size)
      if (file.guest) guestBytes += storedFileBytes(file.size)
    }
    return { files, bytes, guestBytes }
  }

  countOfGuests({ number }: Channel): number {
    const stored = this.#facts.need(`guests ${number}`, () => ask(this.#transaction, OF_GUESTS, [number]))
    let [count] = stored[0] as [number]
    for (const { file } of this.#added.values()) if (file.channel === number && file.guest) count += 1
    return count
  }

  bytesOf(account: Account): number {
    const key = accountKey(account)
    const stored = this.#facts.need(`bytes ${key}`, () => ask(this.#transaction, BYTES_OF, [account.id, account.mode]))
    let bytes = (stored[0] as [number])[0]
    for (const each of this.#added.values()) if (each.account === key) bytes += storedFileBytes(each.file.size)
    return bytes
  }

  countOpen(agent: AgentId, now: Time): number {
    const stored = this.#facts.need(`open ${agent}`, () => ask(this.#transaction, OPEN, [bytea(agent), now]))
    let [count] = stored[0] as [number]
    for (const { file } of this.#added.values()) if (file.sender === agent) count += 1
    return count
  }

  endAll({ number }: Channel): void {
    this.#ended.add(number)
  }

  due(before: Time, limit: number): readonly DueFile[] {
    const rows = this.#facts.need('due', () => ask(this.#transaction, DUE, [before, limit]))
    return (rows as unknown as readonly [string, number][]).map(([key, size]) => ({ key, parts: filePartCount(size) }))
  }

  forget(keys: readonly string[], before: Time): void {
    this.#forgotten = [[...(this.#forgotten?.[0] ?? []), ...keys], before]
  }

  known(keys: readonly string[]): readonly string[] {
    const rows = this.#facts.need(`known ${keys.join(' ')}`, () => ask(this.#transaction, KNOWN, [keys]))
    return rows.map(([key]) => key as string)
  }

  write(): void {
    for (const [key, { file }] of this.#added) {
      const row = fileRow(this.#changed.get(key) ?? file)
      send(this.#transaction, ADD, [...row, storedFileBytes(file.size)])
    }
    for (const [key, file] of this.#changed) {
      if (this.#added.has(key)) continue
      const [, , , , , ...changing] = fileRow(file)
      send(this.#transaction, CHANGE, [key, ...changing])
    }
    if (this.#ended.size > 0) send(this.#transaction, END_ALL, [[...this.#ended]])
    if (!this.#forgotten) return
    send(this.#transaction, FORGET, this.#forgotten)
    send(this.#transaction, FORGET_ROOMS, [])
  }

  async #fetch(key: string): Promise<void> {
    const [row] = await ask(this.#transaction, FIND, [[key]])
    this.#known.set(key, row ? readFile(row) : null)
  }
}
