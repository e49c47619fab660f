/** Invites in SQLite. */
import type { DatabaseSync } from 'node:sqlite'
import { fromHex } from '@static/protocol'
import type { ChannelId, Invite, Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import type { InviteRows } from '../../ledger/rows/invites.ts'
import type { Channel } from '../../ledger/state.ts'
import { type InviteRow, inviteRow, readInvite } from '../../records/invite.ts'
import { type Prepared, prepared } from '../statements.ts'

const SQL = {
  find: `SELECT id, channel, agent, admission_key, expires_at, max_uses, uses, revoked, members, box_key,
    checksum FROM invites WHERE id = ?`,
  put: 'INSERT OR REPLACE INTO invites VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
  // Does not visit ended invites.
  countActive: `SELECT count(*) FROM invites INDEXED BY open_invites
    WHERE channel = ? AND revoked = 0 AND uses < max_uses AND expires_at > ?`,
  usedUp: 'SELECT id FROM invites INDEXED BY used_up_invites WHERE channel = ? AND uses >= max_uses',
  count: 'SELECT count(*) FROM invites WHERE channel = ?',
  // Replacing a row gives it a new rowid, so the order is that of the last change.
  dropEnded: `DELETE FROM invites WHERE rowid IN (SELECT rowid FROM invites INDEXED BY invites_of
    WHERE channel = ? AND (revoked = 1 OR uses >= max_uses OR expires_at <= ?) ORDER BY rowid LIMIT ?) RETURNING id`,
  dropAll: 'DELETE FROM invites WHERE channel = ?',
  expire: `DELETE FROM invites WHERE rowid IN
    (SELECT rowid FROM invites WHERE expires_at <= ? ORDER BY expires_at, rowid LIMIT ?)`,
}

/** The invites of an open database. */
export class SqliteInviteRows implements InviteRows {
  readonly #statements: Prepared<keyof typeof SQL>

  constructor(db: DatabaseSync) {
    this.#statements = prepared(db, SQL)
  }

  get(id: string): Invite | undefined {
    const row = this.#statements.find.get(id)
    return row && readInvite(intact(row, `invite ${id}`) as InviteRow)
  }

  put(invite: Invite): void {
    this.#statements.put.run(...sealed(inviteRow(invite)))
  }

  countActive({ id }: Channel, now: Time): number {
    return (this.#statements.countActive.get(fromHex(id), now) as unknown as [number])[0]
  }

  usedUp(channel: ChannelId): readonly string[] {
    const rows = this.#statements.usedUp.all(fromHex(channel)) as unknown as [string][]
    return rows.map(([id]) => id)
  }

  dropEnded({ id }: Channel, now: Time, kept: number): readonly string[] {
    const [count] = this.#statements.count.get(fromHex(id)) as unknown as [number]
    if (count <= kept) return []
    const rows = this.#statements.dropEnded.all(fromHex(id), now, count - kept) as unknown as [string][]
    return rows.map(([dropped]) => dropped)
  }

  dropAll({ id }: Channel): void {
    this.#statements.dropAll.run(fromHex(id))
  }

  expire(since: Time, limit: number): void {
    this.#statements.expire.run(since, limit)
  }
}
