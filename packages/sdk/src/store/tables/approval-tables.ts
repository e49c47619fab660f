/** Tables of approvals. */
import type { ApprovalEventRecord, ApprovalRecord, ApprovalRequestRecord } from '../../ports/index.ts'
import { BYTES, FLAG, INTEGER, OPTIONAL_TEXT, type Table, TEXT } from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

export const APPROVAL: Table<InChannel<ApprovalRecord>> = {
  name: 'approval',
  columns: {
    channel: TEXT,
    hash: BYTES,
    identity: BYTES,
    since: INTEGER,
    clock: INTEGER,
    outcome: OPTIONAL_TEXT,
    isSpent: FLAG,
  },
  key: ['channel', 'hash'],
  parent: { table: 'channel', by: ['channel'] },
}

/** Apart, because it is long and the other row changes. */
export const APPROVAL_REQUEST: Table<InChannel<ApprovalRequestRecord>> = {
  name: 'approval_request',
  columns: { channel: TEXT, hash: BYTES, request: BYTES },
  key: ['channel', 'hash'],
  parent: { table: 'approval', by: ['channel', 'hash'] },
}

export const APPROVAL_EVENT: Table<InChannel<ApprovalEventRecord>> = {
  name: 'approval_event',
  columns: {
    channel: TEXT,
    hash: BYTES,
    number: INTEGER,
    agent: TEXT,
    what: TEXT,
    at: INTEGER,
    decision: BYTES,
    publicKey: BYTES,
    identity: BYTES,
  },
  key: ['channel', 'hash', 'number'],
  parent: { table: 'approval', by: ['channel', 'hash'] },
}
