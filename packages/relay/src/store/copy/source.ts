/** Reads the database file of a stopped relay, in an order in which the copy can continue after any row. */
import { existsSync, statSync } from 'node:fs'
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { digestFile } from '@static/node/digest'
import { StaticError } from '@static/protocol'
import { type Value, damaged, intact, sealed } from '../checksum.ts'
import { FILE_COLUMNS } from '../records/file.ts'
import { KINDS } from '../records/entry.ts'
import { holdDatabase, readDeployment } from '../sqlite/schema.ts'
import { iterate } from '../sqlite/statements.ts'
import { readChannels } from './channels.ts'
import type { Mark, Piece } from './piece.ts'
import type { CopiedTable } from './tables.ts'

/** At the end of an id's key in SQLite: channel, kind and agent (`keys.ts`). */
const ID_SUFFIX = 15

type Row = readonly Value[]

/** A table whose rows are copied as they are, or nearly. */
interface Part {
  readonly table: CopiedTable
  /** Selects the target's columns, in order. Takes the key of the last row. */
  readonly sql: string
  /** Sorts before every key. */
  readonly first: Row
  readonly key: (row: Row) => Row
  /** The values that the checksum covers, and the checksum; undefined if it has none. */
  readonly checked: ((row: Row) => Row) | undefined
  /** The number of its channel. */
  readonly channel?: (row: Row) => number
  /** Whether a row without its channel is damage. Other rows of deleted channels remain for a while and are skipped. */
  readonly isBound?: boolean
  /** The target's row, if it differs. */
  readonly change?: (row: Row) => Row
}

const NOTHING = new Uint8Array()
const withoutFirst = (row: Row): Row => row.slice(1)
const firstIsChannel = (row: Row): number => row[0] as number

const PARTS: readonly Part[] = [
  {
    table: 'accounts',
    sql: `SELECT account, mode, channel_bytes, account_bytes, file_bytes, told_at, checksum FROM accounts
      WHERE (account, mode) > (?, ?) ORDER BY account, mode`,
    first: ['', ''],
    key: ([account, mode]) => [account ?? '', mode ?? ''],
    checked: (row) => row,
  },
  {
    table: 'members',
    sql: `SELECT channel, channel_id, agent, added, sponsor, vouched, welcomed, cursor_index, cursor_hash, cursor_slot, receipt,
      welcome, earlier, ended_index, ended_hash, ended_slot, ended_at, notice, pending, checksum FROM members
      WHERE (channel, agent) > (?, ?) ORDER BY channel, agent`,
    first: [0, NOTHING],
    key: ([channel, , agent]) => [channel ?? 0, agent ?? NOTHING],
    checked: withoutFirst,
    channel: firstIsChannel,
    isBound: true,
  },
  {
    table: 'slots',
    sql: `SELECT channel, slot, entry, record, checksum FROM slots
      WHERE (channel, slot) > (?, ?) ORDER BY channel, slot`,
    first: [0, -1],
    key: (row) => row.slice(0, 2),
    checked: withoutFirst,
    channel: firstIsChannel,
  },
  {
    table: 'turns',
    sql: `SELECT channel, agent, entry, slot, record, checksum FROM turns
      WHERE (channel, agent, entry) > (?, ?, ?) ORDER BY channel, agent, entry`,
    first: [0, NOTHING, -1],
    key: (row) => row.slice(0, 3),
    checked: withoutFirst,
    channel: firstIsChannel,
  },
  {
    table: 'welcomes',
    sql: `SELECT sequence, channel, agent, account, mode, at, shared, record, checksum, welcome FROM welcomes
      WHERE sequence > ? ORDER BY sequence`,
    first: [0],
    key: (row) => row.slice(0, 1),
    checked: ([, channel, , , , , shared, record, sum, welcome]) => [channel, shared, record, welcome, sum] as Row,
    channel: (row) => row[1] as number,
  },
  {
    table: 'group_infos',
    sql: `SELECT channel, entry, checksum, group_info FROM group_infos
      WHERE (channel, entry) > (?, ?) ORDER BY channel, entry`,
    first: [0, -1],
    key: (row) => row.slice(0, 2),
    checked: ([channel, entry, sum, bytes]) => [channel, entry, bytes, sum] as Row,
    channel: firstIsChannel,
  },
  {
    // Their order is that of the last change.
    table: 'invites',
    sql: `SELECT rowid, id, channel, agent, admission_key, expires_at, max_uses, uses, revoked, members, box_key,
      checksum FROM invites WHERE rowid > ? ORDER BY rowid`,
    first: [0],
    key: (row) => row.slice(0, 1),
    checked: withoutFirst,
  },
  {
    // Of deleted channels none: their bytes belong to nothing then, and the next sweep of those deletes them.
    table: 'files',
    sql: `SELECT ${FILE_COLUMNS}, bytes FROM files WHERE key > ? ORDER BY key`,
    first: [''],
    key: (row) => row.slice(0, 1),
    checked: (row) => row.slice(0, -2),
    channel: (row) => row[1] as number,
  },
  {
    table: 'file_rooms',
    sql: 'SELECT channel, files, bytes, guest_bytes FROM file_rooms WHERE channel > ? ORDER BY channel',
    first: [0],
    key: (row) => row.slice(0, 1),
    checked: undefined,
    channel: firstIsChannel,
  },
  {
    table: 'joins',
    sql: `SELECT number, queue, channel, invite, agent, until, checksum, box FROM joins
      WHERE number > ? ORDER BY number`,
    first: [0],
    key: (row) => row.slice(0, 1),
    checked: ([, queue, , invite, agent, , sum, box]) => [queue, invite, agent, box, sum] as Row,
  },
  {
    table: 'nonces',
    sql: 'SELECT nonce, until FROM nonces WHERE nonce > ? ORDER BY nonce',
    first: [NOTHING],
    key: (row) => row.slice(0, 1),
    checked: undefined,
  },
  {
    table: 'ids',
    sql: 'SELECT key, entry, head, at, checksum FROM ids WHERE key > ? ORDER BY key',
    first: [NOTHING],
    key: (row) => row.slice(0, 1),
    checked: (row) => row,
    channel: ([key]) => idParts(key as Uint8Array).channel,
    change: ([bytes, entry, head, at]) => {
      const { channel, key } = idParts(bytes as Uint8Array)
      return sealed([channel, key, entry, head, at] as Row)
    },
  },
]

/** SQLite's key starts with the id, PostgreSQL's ends with it. */
function idParts(bytes: Uint8Array): { readonly channel: number; readonly key: Uint8Array } {
  const sqlite = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const length = sqlite.length - ID_SUFFIX
  const kind = length < 0 ? undefined : KINDS[sqlite[length + 6] as number]
  if (kind === undefined) throw damaged('a message id')
  const key = Buffer.concat([sqlite.subarray(length + 6), sqlite.subarray(0, length)])
  return { channel: sqlite.readUIntBE(length, 6), key }
}

/** A database file that no relay has open, locked until it is closed. */
export class CopySource {
  readonly #db: DatabaseSync
  /** Of the content: a copy continues only if the file has not changed. */
  readonly fingerprint: Buffer
  readonly relayId: Uint8Array
  /** The numbers of all channels, in order. */
  readonly channels: readonly number[]

  private constructor(db: DatabaseSync, sha256: string) {
    this.#db = db
    this.fingerprint = Buffer.from(sha256, 'hex')
    this.relayId = readDeployment(db).relayId
    this.channels = this.#column('SELECT number FROM channels ORDER BY number')
    // Both are stored and deleted together.
    const foundings = this.#column('SELECT channel FROM foundings ORDER BY channel')
    const lost = this.channels.find((number, at) => foundings[at] !== number)
    if (lost !== undefined || foundings.length !== this.channels.length) throw damaged('the list of channels')
  }

  /**
   * Opens the file. Throws `not_found` if there is none, `store_locked` if a relay uses it, `store_corrupt` if it is
   * damaged.
   */
  static async open(path: string): Promise<CopySource> {
    if (!existsSync(path)) throw StaticError.of('not_found', `Database ${path} does not exist.`)
    // The write-ahead log of a killed relay must be in the file before the file is read as a whole.
    holdDatabase(path).close()
    const before = statSync(path)
    // Before locking: closing the file releases this process's lock.
    const { sha256 } = await digestFile(path)
    const db = holdDatabase(path)
    try {
      const after = statSync(path)
      if (before.mtimeMs !== after.mtimeMs || before.size !== after.size) {
        throw StaticError.of('store_locked', `${path} was changed by another process. Stop the relay that uses it.`)
      }
      return new CopySource(db, sha256)
    } catch (error) {
      db.close()
      throw error
    }
  }

  /** Everything after a mark, in order. Throws `store_corrupt` at the first damaged row. */
  *read({ part: first, key }: Mark): Iterable<Piece> {
    for (let part = first; part <= PARTS.length; part++) {
      const from = part === first ? key : []
      const simple = PARTS[part - 1]
      // Channels come first, so that the longest part shows damage early.
      const parts = simple ? this.#rows(simple, from) : readChannels(this.#db, this.channels, from)
      for (const [rows, at] of parts) yield { rows, mark: { part, key: at } }
    }
  }

  /** The highest number that was ever given to a row. */
  lastNumber(table: 'channels' | 'welcomes' | 'joins' | 'invites'): number {
    const numbers =
      table === 'invites'
        ? this.#column('SELECT max(rowid) FROM invites')
        : this.#column(`SELECT seq FROM sqlite_sequence WHERE name = '${table}'`)
    return numbers[0] ?? 0
  }

  close(): void {
    this.#db.close()
  }

  *#rows(part: Part, from: Row): Iterable<readonly [Piece['rows'], Row]> {
    const { table, sql, first, key, checked, channel, isBound, change } = part
    const live = new Set(this.channels)
    const statement = this.#db.prepare(sql)
    statement.setReturnArrays(true)
    const after = (from.length === 0 ? first : from) as SQLInputValue[]
    for (const each of iterate(statement, ...after)) {
      const row = each as Row
      if (checked) intact(checked(row), `a row of ${table}`)
      const isLive = channel === undefined || live.has(channel(row))
      if (!isLive && isBound) throw damaged(`a row of ${table} without its channel`)
      yield [isLive ? [{ table, values: change ? change(row) : row }] : [], key(row)]
    }
  }

  #column(sql: string): number[] {
    const statement = this.#db.prepare(sql)
    statement.setReturnArrays(true)
    return (statement.all() as unknown as [number | null][]).flatMap(([value]) => value ?? [])
  }
}
