/**
 * Tables of messages. Ciphertexts are stored apart, in the table `body` (bodies.ts); the row holds the number there.
 */
import type { AnswererRecord, AskRecord, InboxRecord, OutboxRecord, PoisonRecord } from '../../ports/index.ts'
import { BYTES, FLAG, INTEGER, OPTIONAL_BYTES, OPTIONAL_TEXT, type Table, TEXT } from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

/**
 * A message of this agent. Once it is answered, `bodyHash` is set, `messageKey` is empty, and the number of its
 * ciphertext may belong to another message.
 */
export interface OutboxRow extends InChannel<Omit<OutboxRecord, 'ciphertext'>> {
  readonly ciphertext: Uint8Array | undefined
  readonly bodyHash: Uint8Array | undefined
}

export const OUTBOX: Table<OutboxRow> = {
  name: 'outbox',
  columns: {
    channel: TEXT,
    messageId: BYTES,
    counter: INTEGER,
    control: FLAG,
    slot: INTEGER,
    fileId: OPTIONAL_BYTES,
    messageKey: BYTES,
    ciphertext: OPTIONAL_BYTES,
    bodyHash: OPTIONAL_BYTES,
  },
  key: ['channel', 'messageId'],
  parent: { table: 'channel', by: ['channel'] },
  body: { field: 'ciphertext', until: 'bodyHash' },
}

/** A received message, with the length of its ciphertext. */
export interface InboxRow extends InChannel<InboxRecord> {
  readonly bytes: number
}

const RECEIVED: Table<InboxRow>['columns'] = {
  channel: TEXT,
  index: { ...INTEGER, name: 'log_index' },
  part: INTEGER,
  messageId: BYTES,
  sender: TEXT,
  identity: BYTES,
  epoch: INTEGER,
  receivedAt: INTEGER,
  messageKey: BYTES,
  ciphertext: BYTES,
  attempts: INTEGER,
  bytes: INTEGER,
}

/** Unsettled messages. */
export const INBOX: Table<InboxRow> = {
  name: 'inbox',
  columns: RECEIVED,
  key: ['channel', 'index', 'part'],
  parent: { table: 'channel', by: ['channel'] },
  body: { field: 'ciphertext' },
}

/** Messages that were put aside. */
export const POISON: Table<InboxRow & InChannel<PoisonRecord>> = {
  name: 'poison',
  columns: { ...RECEIVED, reason: TEXT, putAsideAt: INTEGER },
  key: ['channel', 'index', 'part'],
  parent: { table: 'channel', by: ['channel'] },
  body: { field: 'ciphertext' },
}

/** Requests that this agent has not answered completely. */
export const REQUEST: Table<InboxRow> = { ...INBOX, name: 'request' }

/** Unread answers to requests of this agent. */
export const ANSWER: Table<InboxRow> = { ...INBOX, name: 'answer' }

/** Open requests of this agent. Their payloads are not kept. */
export const ASK: Table<InChannel<AskRecord>> = {
  name: 'ask',
  columns: { channel: TEXT, messageId: BYTES, to: { ...OPTIONAL_TEXT, name: 'asked' }, deadline: INTEGER },
  key: ['channel', 'messageId'],
  parent: { table: 'channel', by: ['channel'] },
  brief: true,
}

/** The members that have answered requests. */
export const ANSWERER: Table<InChannel<AnswererRecord>> = {
  name: 'answerer',
  columns: { channel: TEXT, messageId: BYTES, agent: TEXT, answers: INTEGER, ended: FLAG },
  key: ['channel', 'messageId', 'agent'],
  parent: { table: 'ask', by: ['channel', 'messageId'] },
}
