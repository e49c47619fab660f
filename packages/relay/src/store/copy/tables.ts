/** The tables that a copy fills, with the columns of their rows, and the statements that store many rows at once. */
import { type Statement, statement } from '../postgres/session.ts'

/** In SQLite's order of columns, except where `source.ts` says otherwise. */
const COLUMNS = {
  accounts:
    'account text, mode text, channel_bytes bigint, account_bytes bigint, file_bytes bigint, told_at bigint, checksum bigint',
  channels: `number bigint, id bytea, name text, created_at bigint, account text, mode text, owner bytea, guest_limit bigint,
    standby bytea, ownership_slot bigint, taken_slot bigint,
    last_index bigint, last_hash bytea, head bigint, last_at bigint, base_index bigint, base_hash bytea, base_slot bigint, bytes bigint,
    oldest_at bigint, guest_day bigint, guest_count bigint, unvouched_bytes bigint, settled bigint, first_slot bigint,
    slot_at bigint, hour bigint, adds bigint, commit_bytes bigint, due bigint, checksum bigint`,
  foundings: 'channel bigint, welcome bytea, checksum bigint',
  senders: `channel bigint, agent bytea, counter bigint, barred int, acted int, seen bigint, hour bigint, free bigint,
    commit_bytes bigint, bytes bigint, entries bigint, checksum bigint`,
  entries: `channel bigint, index bigint, kind int, slot bigint, at bigint, counter bigint, control int, sender bytea,
    message_id bytea, hash bytea, checksum bigint, body bytea`,
  members: `channel bigint, channel_id bytea, agent bytea, added bigint, sponsor bytea, vouched bigint, welcomed int, cursor_index bigint,
    cursor_hash bytea, cursor_slot bigint, receipt bytea, welcome bigint, earlier bigint, ended_index bigint, ended_hash bytea,
    ended_slot bigint, ended_at bigint, notice bytea, pending int, checksum bigint`,
  slots: 'channel bigint, slot bigint, entry bigint, record text, checksum bigint',
  turns: 'channel bigint, agent bytea, entry bigint, slot bigint, record text, checksum bigint',
  welcomes: `sequence bigint, channel bigint, agent bytea, account text, mode text, at bigint, shared bigint, record text,
    checksum bigint, welcome bytea`,
  group_infos: 'channel bigint, entry bigint, checksum bigint, group_info bytea',
  invites: `changed bigint, id text, channel bytea, agent bytea, admission_key bytea, expires_at bigint, max_uses bigint,
    uses bigint, revoked int, members int, box_key bytea, checksum bigint`,
  files: `key text, channel bigint, sender bytea, guest int, size bigint, entry bigint, parts bytea, checksums bytea,
    dropped bytea, checksum bigint, expires_at bigint, bytes bigint`,
  file_rooms: 'channel bigint, files bigint, bytes bigint, guest_bytes bigint',
  joins: `number bigint, queue bytea, channel bytea, invite text, agent bytea, until bigint,
    checksum bigint, box bytea`,
  nonces: 'nonce bytea, until bigint',
  ids: 'channel bigint, key bytea, entry bigint, head bigint, at bigint, checksum bigint',
}

/** A table that is copied. */
export type CopiedTable = keyof typeof COLUMNS

/** A statement that stores rows, given one array per column, and the number of columns. */
export interface Insertion {
  readonly statement: Statement
  readonly columns: number
}

export const INSERTIONS: ReadonlyMap<string, Insertion> = new Map(
  Object.entries(COLUMNS).map(([table, text]) => {
    const columns = text.split(',').map((column) => column.trim().split(' ') as [name: string, type: string])
    const names = columns.map(([name]) => name).join(', ')
    const arrays = columns.map(([, type], at) => `$${at + 1}::${type}[]`).join(', ')
    const sql = `INSERT INTO ${table} (${names}) SELECT * FROM unnest(${arrays})`
    return [table, { statement: statement(sql), columns: columns.length }]
  }),
)

/** Columns that PostgreSQL numbers itself from now on. */
export const NUMBERED = { channels: 'number', welcomes: 'sequence', joins: 'number', invites: 'changed' } as const
