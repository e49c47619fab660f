/**
 * The relay's database file. Only one process uses it at a time: the lock is taken when it is opened and held until it
 * is closed, so the caches are always correct. Every commit is on disk before it is answered (WAL, `synchronous=FULL`).
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, closeSync, existsSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { fullDisk } from '@static/node/disk-space'
import { isErrno } from '@static/node/files'
import { RELAY_ID_BYTES, StaticError } from '@static/protocol'
import type { Deployment } from '../../ports.ts'
import { checksum, intact, sealed } from '../checksum.ts'
import { SQLITE_CORRUPT } from './damage.ts'

/** Version of the tables below. A released version is never changed: add a step from it to the next. */
const VERSION = 1

/** Created whenever they are missing: an older file gets them when it is opened. */
const LATER_INDEXES = `
  CREATE INDEX IF NOT EXISTS used_up_invites ON invites (channel, id) WHERE uses >= max_uses;
  CREATE INDEX IF NOT EXISTS joins_in ON joins (channel, queue, number, until);
  CREATE INDEX IF NOT EXISTS joins_by ON joins (channel, agent);
  CREATE INDEX IF NOT EXISTS joins_weight ON joins (queue, invite, until, length(box));
`

/**
 * Every message writes an entry and an id, so both go to the end of their tree whatever the channel, and many share a
 * page: entries are numbered in order of arrival and found by one integer (`entryKey`); ids, which are kept long after
 * the entry is deleted, start with the time (`idKey`). `stored` is the entry up to which the rows of channels and
 * senders are up to date (`late-rows.ts`). Each row ends with a checksum (`store/checksum.ts`), so that bit errors are
 * detected before it is served; an entry's body is covered by the hash chain instead.
 */
const TABLES = `
  CREATE TABLE deployment (relay_id BLOB NOT NULL, token_key BLOB NOT NULL, checksum INTEGER NOT NULL) STRICT;
  CREATE TABLE channels (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    account TEXT NOT NULL,
    mode TEXT NOT NULL,
    owner BLOB NOT NULL,
    guest_limit INTEGER NOT NULL,
    standby BLOB,
    ownership_slot INTEGER,
    taken_slot INTEGER,
    last_index INTEGER NOT NULL,
    last_hash BLOB NOT NULL,
    head INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    base_index INTEGER NOT NULL,
    base_hash BLOB NOT NULL,
    base_slot INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    oldest_at INTEGER,
    guest_day INTEGER NOT NULL,
    guest_count INTEGER NOT NULL,
    unvouched_bytes INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    first_slot INTEGER NOT NULL,
    slot_at INTEGER,
    hour INTEGER NOT NULL,
    adds INTEGER NOT NULL,
    commit_bytes INTEGER NOT NULL,
    due INTEGER,
    checksum INTEGER NOT NULL,
    UNIQUE (account, mode, name)
  ) STRICT;
  CREATE TABLE accounts (
    account TEXT NOT NULL,
    mode TEXT NOT NULL,
    channel_bytes INTEGER,
    account_bytes INTEGER,
    file_bytes INTEGER,
    told_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (account, mode)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX due_channels ON channels (due) WHERE due IS NOT NULL;
  CREATE TABLE foundings (
    channel INTEGER PRIMARY KEY,
    welcome BLOB NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE dropped (
    freed INTEGER NOT NULL,
    channel INTEGER NOT NULL,
    account TEXT NOT NULL,
    mode TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (freed, channel)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX dropped_of ON dropped (account, mode);
  CREATE TABLE members (
    channel INTEGER NOT NULL,
    channel_id BLOB NOT NULL,
    agent BLOB NOT NULL,
    added INTEGER NOT NULL,
    sponsor BLOB,
    vouched INTEGER,
    welcomed INTEGER NOT NULL,
    cursor_index INTEGER NOT NULL,
    cursor_hash BLOB NOT NULL,
    cursor_slot INTEGER NOT NULL,
    receipt BLOB,
    welcome INTEGER,
    earlier INTEGER,
    ended_index INTEGER,
    ended_hash BLOB,
    ended_slot INTEGER,
    ended_at INTEGER,
    notice BLOB,
    pending INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (channel, agent)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX rosters ON members (agent, channel_id) WHERE ended_index IS NULL AND welcomed = 1;
  CREATE TABLE senders (
    channel INTEGER NOT NULL,
    agent BLOB NOT NULL,
    counter INTEGER NOT NULL,
    barred INTEGER NOT NULL,
    acted INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    free INTEGER NOT NULL,
    commit_bytes INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (channel, agent)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE slots (
    channel INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    record TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (channel, slot)
  ) STRICT;
  CREATE INDEX slot_entries ON slots (channel, entry);
  CREATE TABLE turns (
    channel INTEGER NOT NULL,
    agent BLOB NOT NULL,
    entry INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    record TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (channel, agent, entry)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX turns_of ON turns (channel, slot);
  CREATE TABLE stored (sequence INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;
  CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY,
    key INTEGER NOT NULL UNIQUE,
    kind INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    control INTEGER NOT NULL,
    sender BLOB NOT NULL,
    message_id BLOB NOT NULL,
    hash BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
  ) STRICT;
  CREATE TABLE ids (
    key BLOB PRIMARY KEY,
    entry INTEGER NOT NULL,
    head INTEGER NOT NULL,
    at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE welcomes (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    channel INTEGER NOT NULL,
    agent BLOB NOT NULL,
    account TEXT NOT NULL,
    mode TEXT NOT NULL,
    at INTEGER NOT NULL,
    shared INTEGER,
    record TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    welcome BLOB NOT NULL,
    UNIQUE (channel, agent)
  ) STRICT;
  CREATE TABLE group_infos (
    channel INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    group_info BLOB NOT NULL,
    UNIQUE (channel, entry)
  ) STRICT;
  CREATE INDEX welcomes_of ON welcomes (agent);
  CREATE INDEX welcomes_from ON welcomes (agent, account, mode, channel);
  CREATE INDEX welcomes_sharing ON welcomes (channel, shared) WHERE shared IS NOT NULL;
  CREATE INDEX old_welcomes ON welcomes (at);
  CREATE TABLE invites (
    id TEXT PRIMARY KEY,
    channel BLOB NOT NULL,
    agent BLOB NOT NULL,
    admission_key BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    max_uses INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    revoked INTEGER NOT NULL,
    members INTEGER NOT NULL,
    box_key BLOB,
    checksum INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX invites_of ON invites (channel);
  CREATE INDEX open_invites ON invites (channel, expires_at) WHERE revoked = 0 AND uses < max_uses;
  CREATE INDEX expiring_invites ON invites (expires_at);
  CREATE TABLE files (
    key TEXT PRIMARY KEY,
    channel INTEGER NOT NULL,
    sender BLOB NOT NULL,
    guest INTEGER NOT NULL,
    size INTEGER NOT NULL,
    entry INTEGER,
    parts BLOB NOT NULL,
    checksums BLOB NOT NULL,
    dropped BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX files_of ON files (channel);
  CREATE INDEX open_files ON files (sender, expires_at) WHERE entry IS NULL;
  CREATE INDEX ending_files ON files (expires_at, key);
  CREATE TABLE file_rooms (
    channel INTEGER PRIMARY KEY,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    guest_bytes INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE joins (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    queue BLOB NOT NULL,
    channel BLOB NOT NULL,
    invite TEXT NOT NULL,
    agent BLOB NOT NULL,
    until INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    box BLOB NOT NULL,
    UNIQUE (invite, agent)
  ) STRICT;
  CREATE INDEX joins_of ON joins (queue, number);
  CREATE INDEX old_joins ON joins (until);
  CREATE TABLE nonces (nonce BLOB PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX old_nonces ON nonces (until);
`

/** Page cache in KiB: the ids of busy senders should fit. */
const CACHE_KIB = 32_768
/** Pages in the write-ahead log before SQLite checkpoints it: hot pages are written once for many batches. */
const CHECKPOINT_PAGES = 4000

const SQLITE_BUSY = 5
const SQLITE_NOTADB = 26
/** I/O error, full, cannot open. */
const SQLITE_DISK = new Set([10, 13, 14])

/**
 * Opens or creates the file. Throws `store_locked` if another process has it open, `store_corrupt` if it is not a
 * database of this version, `unavailable` if it cannot be opened at all.
 */
export function openDatabase(path: string): DatabaseSync {
  let db: DatabaseSync | undefined
  try {
    // SQLite would create it with the umask; its -wal file inherits the mode of this one. An existing file is not
    // opened here: closing it would release the lock that another thread of this process may hold on it (POSIX).
    if (!existsSync(path)) closeSync(openSync(path, 'ax', 0o600))
    chmodSync(path, 0o600)
    db = new DatabaseSync(path)
    // The first pragma has no effect once there is a table, or once the file is in WAL mode.
    db.exec(`
      PRAGMA auto_vacuum=INCREMENTAL;
      PRAGMA locking_mode=EXCLUSIVE;
      PRAGMA journal_mode=WAL;
      PRAGMA synchronous=FULL;
      PRAGMA cache_size=-${CACHE_KIB};
      PRAGMA wal_autocheckpoint=${CHECKPOINT_PAGES};
    `)
    makeTables(db, path)
    return db
  } catch (error) {
    db?.close()
    throw openingError(error, path)
  }
}

/** Opens a file exclusively for reading, without changing a single byte. Throws like `openDatabase`. */
export function holdDatabase(path: string): DatabaseSync {
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(path)
    db.exec('PRAGMA locking_mode=EXCLUSIVE; BEGIN IMMEDIATE')
    if (readVersion(db, path) === 0) throw StaticError.of('store_corrupt', `${path} is not the database of a relay.`)
    db.exec('COMMIT')
    return db
  } catch (error) {
    db?.close()
    throw openingError(error, path)
  }
}

function readVersion(db: DatabaseSync, path: string): number {
  const version = db.prepare('PRAGMA user_version').get()?.['user_version']
  if (typeof version === 'number' && version <= VERSION) return version
  throw StaticError.of('store_corrupt', `${path} was created by a newer version of Static. Update Static.`)
}

function makeTables(db: DatabaseSync, path: string): void {
  db.exec('BEGIN IMMEDIATE')
  const version = readVersion(db, path)
  if (version === 0) {
    db.exec(TABLES)
    const secrets = [randomBytes(RELAY_ID_BYTES), randomBytes(32)]
    db.prepare('INSERT INTO deployment VALUES (?, ?, ?)').run(...secrets, checksum(secrets))
    db.prepare('INSERT INTO stored VALUES (?, ?)').run(...sealed([0]))
    db.exec(`PRAGMA user_version=${VERSION}`)
  }
  db.exec(LATER_INDEXES)
  db.exec('COMMIT')
}

/** The random values created with the file. Throws `store_corrupt` if they are damaged. */
export function readDeployment(db: DatabaseSync): Deployment {
  const statement = db.prepare('SELECT relay_id, token_key, checksum FROM deployment')
  statement.setReturnArrays(true)
  const [relayId, tokenKey] = intact(statement.get(), 'deployment') as readonly [Uint8Array, Uint8Array]
  return { relayId, tokenKey }
}

function openingError(error: unknown, path: string): StaticError {
  if (error instanceof StaticError) return error
  const { errcode = 0, message } = error as { errcode?: number; message?: string }
  const code = errcode & 0xff
  if (code === SQLITE_BUSY)
    return StaticError.of('store_locked', `${path} is locked by another process.`, { cause: error })
  if (code === SQLITE_CORRUPT || code === SQLITE_NOTADB) {
    return StaticError.of('store_corrupt', `${path} is not a database, or is damaged.`, { cause: error })
  }
  const full = SQLITE_DISK.has(code) || isErrno(error, 'ENOSPC') ? fullDisk(path) : undefined
  if (full !== undefined) {
    return StaticError.of('unavailable', `${full} Free some space, then start again.`, { cause: error })
  }
  return StaticError.of('unavailable', `${path} cannot be opened (${String(message)}).`, { cause: error })
}
