/** Tables of the history: the messages that the agent keeps, and for how many days. */
import { KEPT_KINDS, type KeptRecord } from '../../ports/index.ts'
import { BYTES, type Column, INTEGER, oneOf, OPTIONAL_BYTES, OPTIONAL_TEXT, type Table, TEXT } from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

const OPTIONAL_INTEGER: Column<number | undefined> = {
  type: 'INTEGER',
  nullable: true,
  write: (number) => number ?? null,
  read: (value, column) => (value === null ? undefined : INTEGER.read(value, column)),
}

/** The payload comes last, so that SQLite finds the other columns without reading it. */
export const KEPT: Table<InChannel<KeptRecord>> = {
  name: 'kept',
  columns: {
    channel: TEXT,
    index: { ...INTEGER, name: 'log_index' },
    part: INTEGER,
    sender: TEXT,
    keptAt: INTEGER,
    bytes: INTEGER,
    messageId: BYTES,
    identity: BYTES,
    receivedAt: INTEGER,
    kind: oneOf(...KEPT_KINDS),
    requestId: OPTIONAL_BYTES,
    fileName: OPTIONAL_TEXT,
    fileSize: OPTIONAL_INTEGER,
    fileType: OPTIONAL_TEXT,
    payload: BYTES,
  },
  key: ['channel', 'index', 'part', 'sender'],
  parent: { table: 'channel', by: ['channel'] },
  large: true,
}

/** One row, or none for an agent that keeps nothing. 0 days: nothing more, and what was kept is being erased. */
export const KEEPING: Table<{ readonly one: number; readonly days: number }> = {
  name: 'keeping',
  columns: { one: { ...INTEGER, extra: 'CHECK (one = 1)' }, days: INTEGER },
  key: ['one'],
  rowid: true,
}
