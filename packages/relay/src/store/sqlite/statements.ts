/**
 * Every statement of the SQLite engine, prepared once. They return arrays, because row objects of `node:sqlite` are
 * slow.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'

const MEMBER = `SELECT channel_id, agent, added, sponsor, vouched, welcomed, cursor_index, cursor_hash, cursor_slot, receipt, welcome, earlier, ended_index, ended_hash,
  ended_slot, ended_at, notice, pending, checksum FROM members`
const SENDER =
  'SELECT agent, counter, barred, acted, seen, hour, free, commit_bytes, bytes, entries, checksum FROM senders'
const HEADER = 'key & 0xfffffffff, kind, slot, at, counter, control, sender, message_id, hash, checksum'

const SQL = {
  // ---- Channels ----
  channel: `SELECT number, id, name, created_at, account, mode, owner, guest_limit, standby, ownership_slot, taken_slot, last_index,
    last_hash, head, last_at, base_index, base_hash, base_slot, bytes, oldest_at, guest_day, guest_count, unvouched_bytes, settled, first_slot, slot_at, hour, adds,
    commit_bytes, due, checksum FROM channels WHERE id = ?`,
  members: `${MEMBER} WHERE channel = ?`,
  member: `${MEMBER} WHERE channel = ? AND agent = ?`,
  senders: `${SENDER} WHERE channel = ?`,
  sender: `${SENDER} WHERE channel = ? AND agent = ?`,
  allotment: `SELECT account, mode, channel_bytes, account_bytes, file_bytes, told_at, checksum FROM accounts
    WHERE account = ? AND mode = ?`,
  putAllotment: 'INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?)',
  heldBytes: `SELECT (SELECT coalesce(sum(bytes), 0) FROM channels WHERE account = ? AND mode = ?)
    + (SELECT coalesce(sum(bytes), 0) FROM dropped WHERE account = ? AND mode = ?)`,
  named: 'SELECT id FROM channels WHERE account = ? AND mode = ? AND name = ?',
  countChannels: 'SELECT count(*) FROM channels WHERE account = ? AND mode = ?',
  ownedChannels: `SELECT number, id, name, mode, owner, created_at, last_at, last_index,
      (SELECT coalesce(sum(bytes), 0) FROM senders WHERE channel = number)
    FROM channels WHERE account = ? ORDER BY mode, name LIMIT ? OFFSET ?`,
  countOwned: 'SELECT count(*) FROM channels WHERE account = ?',
  furthestBehind: `SELECT agent, cursor_index FROM members
    WHERE channel = ? AND ended_index IS NULL AND welcomed = 1 ORDER BY cursor_index, agent LIMIT ?`,
  countRoster: 'SELECT count(*) FROM members WHERE channel = ? AND ended_index IS NULL AND welcomed = 1',
  receipts: `SELECT agent, receipt FROM members
    WHERE channel = ? AND agent != ? AND receipt IS NOT NULL AND ended_index IS NULL AND welcomed = 1
    ORDER BY cursor_index DESC LIMIT ?`,
  channelsOf: `SELECT channel_id FROM members
    WHERE agent = ? AND channel_id > ? AND ended_index IS NULL AND welcomed = 1 ORDER BY channel_id LIMIT ?`,
  onRoster: `SELECT 1 FROM members
    WHERE agent = ? AND channel_id = ? AND ended_index IS NULL AND welcomed = 1`,
  dueChannels: 'SELECT id FROM channels WHERE due <= ? ORDER BY due LIMIT ?',
  addChannel: `INSERT INTO channels (id, name, created_at, account, mode, owner, guest_limit, standby, ownership_slot, taken_slot,
    last_index, last_hash, head, last_at, base_index, base_hash, base_slot, bytes, oldest_at, guest_day, guest_count, unvouched_bytes, settled, first_slot, slot_at,
    hour, adds, commit_bytes, due, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  addFounding: 'INSERT INTO foundings VALUES (?, ?, ?)',
  founding: 'SELECT welcome, checksum FROM foundings WHERE channel = ?',
  saveChannel: `UPDATE channels SET last_index = ?, last_hash = ?, head = ?, last_at = ?, base_index = ?, base_hash = ?,
    base_slot = ?, bytes = ?, oldest_at = ?, guest_day = ?, guest_count = ?, unvouched_bytes = ?, settled = ?,
    first_slot = ?, slot_at = ?, hour = ?, adds = ?, commit_bytes = ?, due = ?, checksum = ? WHERE number = ?`,
  saveOwnership: `UPDATE channels SET account = ?, mode = ?, owner = ?, guest_limit = ?, standby = ?, ownership_slot = ?,
    taken_slot = ? WHERE number = ?`,
  saveMember: `INSERT INTO members VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET added = excluded.added, sponsor = excluded.sponsor, vouched = excluded.vouched, welcomed = excluded.welcomed, cursor_index = excluded.cursor_index,
    cursor_hash = excluded.cursor_hash, cursor_slot = excluded.cursor_slot, receipt = excluded.receipt,
    welcome = excluded.welcome, earlier = excluded.earlier,
    ended_index = excluded.ended_index, ended_hash = excluded.ended_hash, ended_slot = excluded.ended_slot,
    ended_at = excluded.ended_at, notice = excluded.notice, pending = excluded.pending, checksum = excluded.checksum`,
  dropMember: 'DELETE FROM members WHERE channel = ? AND agent = ?',
  saveSender: 'INSERT OR REPLACE INTO senders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
  dropSender: 'DELETE FROM senders WHERE channel = ? AND agent = ?',

  // ---- Commits that can still be rejected ----
  slot: 'SELECT slot, entry, record, checksum FROM slots WHERE channel = ? AND slot = ?',
  putSlot: 'INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?, ?)',
  dropSlot: 'DELETE FROM slots WHERE channel = ? AND slot = ?',
  commitAfter: 'SELECT entry FROM slots WHERE channel = ? AND entry > ? ORDER BY entry LIMIT 1',
  turnsOf: `SELECT agent, entry, slot, record, checksum FROM turns INDEXED BY turns_of
    WHERE channel = ? AND slot = ? ORDER BY agent, entry`,
  turnsFrom: `SELECT agent, entry, slot, record, checksum FROM turns
    WHERE channel = ? AND agent = ? AND entry >= ? AND slot >= ? ORDER BY entry`,
  putTurn: 'INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?, ?)',
  dropTurns: 'DELETE FROM turns WHERE channel = ? AND slot = ?',

  // ---- Deleted channels ----
  dropChannel: 'DELETE FROM channels WHERE number = ?',
  dropFounding: 'DELETE FROM foundings WHERE channel = ?',
  dropMembers: 'DELETE FROM members WHERE channel = ?',
  addDropped: 'INSERT INTO dropped VALUES (0, ?, ?, ?, ?)',
  firstDropped: 'SELECT channel, account, mode, bytes FROM dropped WHERE freed = ? ORDER BY channel LIMIT 1',
  freeDropped: 'UPDATE dropped SET freed = 1, bytes = 0 WHERE freed = 0 AND channel = ?',
  forgetDropped: 'DELETE FROM dropped WHERE freed = 1 AND channel = ?',
  purgeEntries: `DELETE FROM entries WHERE key IN (SELECT key FROM entries WHERE key >= ? AND key < ? LIMIT ?)
    RETURNING length(body)`,
  purgeWelcomes: `DELETE FROM welcomes WHERE sequence IN (SELECT sequence FROM welcomes WHERE channel = ? LIMIT ?)
    RETURNING length(welcome)`,
  purgeGroupInfos: `DELETE FROM group_infos WHERE rowid IN (SELECT rowid FROM group_infos WHERE channel = ? LIMIT ?)
    RETURNING length(group_info)`,
  purgeTurns: `DELETE FROM turns WHERE (channel, agent, entry) IN
    (SELECT channel, agent, entry FROM turns WHERE channel = ? LIMIT ?) RETURNING length(record)`,
  purgeSlots: `DELETE FROM slots WHERE rowid IN (SELECT rowid FROM slots WHERE channel = ? LIMIT ?)
    RETURNING length(record)`,
  purgeSenders: `DELETE FROM senders WHERE (channel, agent) IN
    (SELECT channel, agent FROM senders WHERE channel = ? LIMIT ?) RETURNING 0`,

  // ---- Log ----
  addEntry: 'INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
  entries: `SELECT ${HEADER}, body FROM entries WHERE key > ? AND key <= ? ORDER BY key`,
  weights: `SELECT key & 0xfffffffff, sender, length(body), at
    FROM entries WHERE key > ? AND key <= ? ORDER BY key`,
  position: `SELECT ${HEADER} FROM entries WHERE key = ?`,
  cut: 'DELETE FROM entries WHERE key > ? AND key <= ?',

  // ---- Rows that are behind the log ----
  stored: 'SELECT sequence, checksum FROM stored',
  putStored: 'UPDATE stored SET sequence = ?, checksum = ?',
  lastSequence: 'SELECT max(sequence) FROM entries',
  lateNumbers: 'SELECT DISTINCT key >> 36 FROM entries WHERE sequence > ?',
  idOf: 'SELECT id FROM channels WHERE number = ?',
  isLate: 'SELECT 1 FROM entries WHERE key > ? AND key < ? LIMIT 1',
  // The same from the index, for a table with a damaged page: slower, but does not read the table.
  lastSequenceByKey: 'SELECT max(sequence) FROM entries INDEXED BY sqlite_autoindex_entries_1',
  lateNumbersByKey: `SELECT DISTINCT key >> 36 FROM entries INDEXED BY sqlite_autoindex_entries_1
    WHERE sequence > ?`,

  // ---- Ids ----
  findId: 'SELECT key, entry, head, at, checksum FROM ids WHERE key = ?',
  addId: `INSERT INTO ids VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET entry = excluded.entry, head = excluded.head, at = excluded.at,
    checksum = excluded.checksum WHERE ids.at <= ?`,
  nextIds: 'SELECT key FROM ids WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?',
  dropIds: 'DELETE FROM ids WHERE key > ? AND key <= ? AND at <= ?',
  oldestId: 'SELECT min(at) FROM ids WHERE key > ? AND key <= ?',

  // ---- Welcomes ----
  putWelcome: `INSERT OR REPLACE INTO welcomes (channel, agent, account, mode, at, shared, record, welcome, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  dropWelcome: 'DELETE FROM welcomes WHERE channel = ? AND agent = ? RETURNING length(welcome), shared',
  putGroupInfo: 'INSERT INTO group_infos (channel, entry, group_info, checksum) VALUES (?, ?, ?, ?)',
  dropGroupInfo: `DELETE FROM group_infos WHERE channel = ? AND entry = ? AND NOT EXISTS
    (SELECT 1 FROM welcomes WHERE welcomes.channel = group_infos.channel AND shared = entry)
    RETURNING length(group_info)`,
  groupInfo: 'SELECT channel, entry, group_info, checksum FROM group_infos WHERE channel = ? AND entry = ?',
  // Welcomes of deleted channels remain for a while.
  countWelcomes: `SELECT count(*) FROM welcomes WHERE agent = ? AND account = ? AND mode = ? AND channel <> ?
    AND EXISTS (SELECT 1 FROM channels WHERE number = welcomes.channel)`,
  // Does not load the blobs: length() does not read them.
  welcomesOf: `SELECT sequence, length(welcome) + coalesce((SELECT length(group_info) FROM group_infos
      WHERE group_infos.channel = welcomes.channel AND entry = shared), 0)
    FROM welcomes INDEXED BY welcomes_of WHERE agent = ? AND sequence > ?
    AND EXISTS (SELECT 1 FROM channels WHERE number = welcomes.channel) ORDER BY sequence`,
  welcome: 'SELECT channel, shared, record, welcome, checksum FROM welcomes WHERE sequence = ?',
  oldWelcomes: `SELECT channels.id, agent FROM welcomes JOIN channels ON channels.number = welcomes.channel
    WHERE at <= ? ORDER BY at, sequence LIMIT ?`,
}

/** Prepared statements by name. */
export type Prepared<Name extends string> = Readonly<Record<Name, StatementSync>>
export type Statements = Prepared<keyof typeof SQL>

/** Prepares all statements of channels. */
export function prepareStatements(db: DatabaseSync): Statements {
  return prepared(db, SQL)
}

/** Prepares statements that return rows as arrays. */
export function prepared<Name extends string>(db: DatabaseSync, sql: Readonly<Record<Name, string>>): Prepared<Name> {
  const statements = Object.entries<string>(sql).map(([name, text]) => {
    const statement = db.prepare(text)
    statement.setReturnArrays(true)
    return [name, statement]
  })
  return Object.fromEntries(statements) as Prepared<Name>
}

/** The rows of a query, one at a time. */
export function* iterate(statement: StatementSync, ...values: readonly SQLInputValue[]): Iterable<unknown> {
  try {
    yield* statement.iterate(...values)
  } catch (error) {
    // `node:sqlite` does not reset a statement whose iteration fails: its next use, even for other rows, would fail.
    try {
      statement.get(...values)
    } catch {
      // The same error.
    }
    throw error
  }
}
