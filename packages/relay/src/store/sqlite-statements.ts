/** Every statement of the SQLite engine, prepared once. They return arrays: `node:sqlite`'s row objects are slow. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'

const SQL = {
  // ---- Channels ----
  channel: `SELECT number, name, account, mode, owner, guest_limit, last_index, last_hash, head, base_index, base_hash,
    base_slot, bytes, oldest_at, guest_day, guest_count, due FROM channels WHERE id = ?`,
  members: `SELECT agent, added, cursor_index, cursor_hash, cursor_slot, acted, welcome, ended_index, ended_hash,
    ended_slot, ended_at, notice, pending FROM members WHERE channel = ?`,
  senders: 'SELECT agent, counter, barred, hour, free, bytes, entries FROM senders WHERE channel = ?',
  slots: 'SELECT slot, record FROM slots WHERE channel = ? ORDER BY slot',
  named: 'SELECT id FROM channels WHERE account = ? AND mode = ? AND name = ?',
  countChannels: 'SELECT count(*) FROM channels WHERE account = ? AND mode = ?',
  channelsOf: `SELECT channels.id FROM members JOIN channels ON channels.number = members.channel
    WHERE members.agent = ? AND members.ended_index IS NULL ORDER BY channels.number`,
  dueChannels: 'SELECT id FROM channels WHERE due <= ? ORDER BY due LIMIT ?',
  addChannel: `INSERT INTO channels (id, name, account, mode, owner, guest_limit, last_index, last_hash, head,
    base_index, base_hash, base_slot, bytes, guest_day, guest_count)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0)`,
  addFounding: 'INSERT INTO foundings VALUES (?, ?)',
  founding: 'SELECT welcome FROM foundings WHERE channel = ?',
  saveChannel: `UPDATE channels SET last_index = ?, last_hash = ?, head = ?, base_index = ?, base_hash = ?,
    base_slot = ?, bytes = ?, oldest_at = ?, guest_day = ?, guest_count = ?, due = ? WHERE number = ?`,
  saveMember: `INSERT INTO members VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET added = excluded.added, cursor_index = excluded.cursor_index,
    cursor_hash = excluded.cursor_hash, cursor_slot = excluded.cursor_slot, acted = excluded.acted,
    welcome = excluded.welcome, ended_index = excluded.ended_index, ended_hash = excluded.ended_hash,
    ended_slot = excluded.ended_slot, ended_at = excluded.ended_at, notice = excluded.notice,
    pending = excluded.pending`,
  dropMember: 'DELETE FROM members WHERE channel = ? AND agent = ?',
  saveSender: 'INSERT OR REPLACE INTO senders VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  dropSender: 'DELETE FROM senders WHERE channel = ? AND agent = ?',
  saveSlot: 'INSERT OR REPLACE INTO slots VALUES (?, ?, ?)',
  dropSlot: 'DELETE FROM slots WHERE channel = ? AND slot = ?',

  // ---- Deleted channels ----
  dropChannel: 'DELETE FROM channels WHERE number = ?',
  dropFounding: 'DELETE FROM foundings WHERE channel = ?',
  dropMembers: 'DELETE FROM members WHERE channel = ?',
  dropSenders: 'DELETE FROM senders WHERE channel = ?',
  dropSlots: 'DELETE FROM slots WHERE channel = ?',
  dropWelcomes: 'DELETE FROM welcomes WHERE channel = ?',
  dropInvites: 'DELETE FROM invites WHERE channel = ?',
  addDropped: 'INSERT INTO dropped VALUES (?)',
  firstDropped: 'SELECT channel FROM dropped LIMIT 1',
  forgetDropped: 'DELETE FROM dropped WHERE channel = ?',
  purgeEntries: 'DELETE FROM entries WHERE key IN (SELECT key FROM entries WHERE key >= ? AND key < ? LIMIT ?)',
  purgeIds: 'DELETE FROM ids WHERE key IN (SELECT key FROM ids WHERE key >= ? AND key < ? LIMIT ?)',

  // ---- Log ----
  addEntry: 'INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
  entries: `SELECT key & 0xfffffffff, kind, slot, at, counter, control, sender, message_id, hash, body
    FROM entries WHERE key > ? AND key <= ? ORDER BY key`,
  weights: `SELECT key & 0xfffffffff, sender, length(body), at
    FROM entries WHERE key > ? AND key <= ? ORDER BY key`,
  position: 'SELECT hash, slot, kind FROM entries WHERE key = ?',
  cut: 'DELETE FROM entries WHERE key > ? AND key <= ?',

  // ---- Ids ----
  findId: 'SELECT entry, head FROM ids WHERE key = ? AND at > ?',
  addId: `INSERT INTO ids VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET entry = excluded.entry, head = excluded.head, at = excluded.at WHERE ids.at <= ?`,
  nextIds: 'SELECT key FROM ids WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?',
  dropIds: 'DELETE FROM ids WHERE key > ? AND key <= ? AND at <= ?',
  oldestId: 'SELECT min(at) FROM ids WHERE key > ? AND key <= ?',

  // ---- Welcomes and invites ----
  putWelcome: 'INSERT OR REPLACE INTO welcomes VALUES (?, ?, ?, ?, ?)',
  dropWelcome: 'DELETE FROM welcomes WHERE channel = ? AND agent = ?',
  welcomesOf: 'SELECT record, welcome FROM welcomes WHERE agent = ? ORDER BY at, channel',
  expireWelcomes: 'DELETE FROM welcomes WHERE at <= ?',
  invite: `SELECT id, channel, agent, admission_key, expires_at, max_uses, uses, revoked FROM invites WHERE id = ?`,
  putInvite: 'INSERT OR REPLACE INTO invites VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  countActiveInvites: `SELECT count(*) FROM invites
    WHERE channel = ? AND revoked = 0 AND expires_at > ? AND uses < max_uses`,
  expireInvites: 'DELETE FROM invites WHERE ends_at <= ?',
  endInvites: 'UPDATE invites SET ends_at = min(?, expires_at) WHERE ends_at IS NULL',
} as const

/** The statements by their names. */
export type Statements = Readonly<Record<keyof typeof SQL, StatementSync>>

/** Prepares them. */
export function prepareStatements(db: DatabaseSync): Statements {
  const prepared = Object.entries(SQL).map(([name, sql]) => {
    const statement = db.prepare(sql)
    statement.setReturnArrays(true)
    return [name, statement]
  })
  return Object.fromEntries(prepared) as Statements
}
