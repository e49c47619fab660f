/** Files in SQLite. What they take is kept for each channel, so that no one has to add up the files of an account. */
import type { DatabaseSync } from 'node:sqlite'
import { filePartCount, fromHex, storedFileBytes } from '@static/protocol'
import type { Account, AgentId, DueFile, Time } from '../../../ports.ts'
import type { FileRecord, FileRoom, FileRows } from '../../ledger/rows/files.ts'
import type { Channel } from '../../ledger/state.ts'
import { FILE_COLUMNS, fileRow, readFile } from '../../records/file.ts'
import { type Prepared, prepared } from '../statements.ts'

const SQL = {
  find: `SELECT ${FILE_COLUMNS} FROM files WHERE key = ?`,
  add: `INSERT INTO files (${FILE_COLUMNS}, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  addRoom: `INSERT INTO file_rooms VALUES (?, 1, ?, ?) ON CONFLICT DO UPDATE
    SET files = files + 1, bytes = bytes + excluded.bytes, guest_bytes = guest_bytes + excluded.guest_bytes`,
  change: `UPDATE files SET entry = ?, parts = ?, checksums = ?, dropped = ?, checksum = ?, expires_at = ?
    WHERE key = ?`,
  room: 'SELECT files, bytes, guest_bytes FROM file_rooms WHERE channel = ?',
  countOfGuests: 'SELECT count(*) FROM files WHERE channel = ? AND guest = 1',
  bytesOf: `SELECT coalesce(sum(file_rooms.bytes), 0) FROM channels JOIN file_rooms ON file_rooms.channel = number
    WHERE account = ? AND mode = ?`,
  countOpen: 'SELECT count(*) FROM files INDEXED BY open_files WHERE sender = ? AND entry IS NULL AND expires_at > ?',
  endAll: 'UPDATE files SET expires_at = 0 WHERE channel = ?',
  due: 'SELECT key, size FROM files WHERE expires_at <= ? ORDER BY expires_at, key LIMIT ?',
  forget: 'DELETE FROM files WHERE key = ? AND expires_at <= ? RETURNING channel, bytes, guest',
  freeRoom: `UPDATE file_rooms SET files = files - 1, bytes = bytes - ?, guest_bytes = guest_bytes - ?
    WHERE channel = ?`,
  forgetRoom: 'DELETE FROM file_rooms WHERE channel = ? AND files = 0',
  isKnown: 'SELECT 1 FROM files WHERE key = ?',
}

/** The files of an open database. */
export class SqliteFileRows implements FileRows {
  readonly #statements: Prepared<keyof typeof SQL>

  constructor(db: DatabaseSync) {
    this.#statements = prepared(db, SQL)
  }

  get(key: string): FileRecord | undefined {
    const row = this.#statements.find.get(key)
    return row && readFile(row as unknown as unknown[])
  }

  add(file: FileRecord): void {
    const bytes = storedFileBytes(file.size)
    this.#statements.add.run(...fileRow(file), bytes)
    this.#statements.addRoom.run(file.channel, bytes, file.guest ? bytes : 0)
  }

  change(file: FileRecord): void {
    const [key, , , , , ...changing] = fileRow(file)
    this.#statements.change.run(...changing, key)
  }

  room({ number }: Channel): FileRoom {
    const row = this.#statements.room.get(number) as unknown as [number, number, number] | undefined
    const [files, bytes, guestBytes] = row ?? [0, 0, 0]
    return { files, bytes, guestBytes }
  }

  countOfGuests({ number }: Channel): number {
    return (this.#statements.countOfGuests.get(number) as unknown as [number])[0]
  }

  bytesOf({ id, mode }: Account): number {
    return (this.#statements.bytesOf.get(id, mode) as unknown as [number])[0]
  }

  countOpen(agent: AgentId, now: Time): number {
    return (this.#statements.countOpen.get(fromHex(agent), now) as unknown as [number])[0]
  }

  endAll({ number }: Channel): void {
    this.#statements.endAll.run(number)
  }

  due(before: Time, limit: number): readonly DueFile[] {
    const rows = this.#statements.due.all(before, limit) as unknown as [string, number][]
    return rows.map(([key, size]) => ({ key, parts: filePartCount(size) }))
  }

  forget(keys: readonly string[], before: Time): void {
    for (const key of keys) {
      const row = this.#statements.forget.get(key, before) as unknown as [number, number, 0 | 1] | undefined
      if (!row) continue
      const [channel, bytes, guest] = row
      this.#statements.freeRoom.run(bytes, guest * bytes, channel)
      this.#statements.forgetRoom.run(channel)
    }
  }

  known(keys: readonly string[]): readonly string[] {
    return keys.filter((key) => this.#statements.isKnown.get(key) !== undefined)
  }
}
