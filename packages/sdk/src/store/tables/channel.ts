/** Tables of a channel. Rows that change with every message are small; the large parts have tables of their own. */
import type {
  ChannelId,
  ChannelRecord,
  LeaverRecord,
  PendingCommitRecord,
  PositionRecord,
  SenderRecord,
} from '../../ports.ts'
import { BYTES, FLAG, INTEGER, KEYS, oneOf, OPTIONAL_TEXT, type Table, TEXT } from '../table.ts'

/** A record with the channel that it belongs to. */
export type InChannel<Record> = Record & { readonly channel: ChannelId }

/** The epoch in use, in the column `pending`. */
export const CURRENT = 0
/** The one that an own commit would lead to. */
export const PENDING = 1

/** A channel's record with its position spread out. */
export interface ChannelRow extends Omit<ChannelRecord, 'position'> {
  readonly positionIndex: PositionRecord['index']
  readonly positionHash: PositionRecord['hash']
  readonly positionSlot: PositionRecord['slot']
}

export const CHANNEL: Table<ChannelRow> = {
  name: 'channel',
  columns: {
    id: TEXT,
    name: TEXT,
    owner: TEXT,
    state: oneOf('founding', 'offered', 'joining', 'joined', 'leaving', 'ended'),
    positionIndex: INTEGER,
    positionHash: BYTES,
    positionSlot: INTEGER,
    counter: INTEGER,
    ownHash: BYTES,
    rekeyDue: FLAG,
    rekeyedAt: INTEGER,
    sentSinceRekey: INTEGER,
    fork: OPTIONAL_TEXT,
    broken: OPTIONAL_TEXT,
    leafKeys: KEYS,
    offeredBy: OPTIONAL_TEXT,
    offeredAt: INTEGER,
  },
  key: ['id'],
}

/** The row of a channel. A copy without `position` would take longer, and this one is written for every message. */
export function channelRow(record: ChannelRecord): ChannelRow {
  const { index, hash, slot } = record.position
  return { ...record, positionIndex: index, positionHash: hash, positionSlot: slot }
}

/** The channel of a row. */
export function channelRecord({ positionIndex, positionHash, positionSlot, ...rest }: ChannelRow): ChannelRecord {
  return { ...rest, position: { index: positionIndex, hash: positionHash, slot: positionSlot } }
}

export const WELCOME: Table<InChannel<{ readonly welcome: Uint8Array }>> = {
  name: 'welcome',
  columns: { channel: TEXT, welcome: BYTES },
  key: ['channel'],
  parent: { table: 'channel', by: ['channel'] },
}

/** `pending` is CURRENT or PENDING. */
export const EPOCH: Table<InChannel<{ readonly pending: number; readonly group: Uint8Array }>> = {
  name: 'epoch',
  columns: { channel: TEXT, pending: INTEGER, group: { ...BYTES, name: 'mls_group' } },
  key: ['channel', 'pending'],
  parent: { table: 'channel', by: ['channel'] },
}

export const RATCHET: Table<
  InChannel<{ readonly pending: number; readonly leaf: number; readonly ratchet: Uint8Array }>
> = {
  name: 'ratchet',
  columns: { channel: TEXT, pending: INTEGER, leaf: INTEGER, ratchet: BYTES },
  key: ['channel', 'pending', 'leaf'],
  parent: { table: 'epoch', by: ['channel', 'pending'] },
}

/** A commit without the epoch that it leads to; `pending` is always PENDING. */
export const PENDING_COMMIT: Table<InChannel<Omit<PendingCommitRecord, 'next'> & { readonly pending: number }>> = {
  name: 'pending_commit',
  columns: {
    channel: TEXT,
    pending: { ...INTEGER, extra: 'CHECK (pending = 1)' },
    messageId: BYTES,
    slot: INTEGER,
    request: BYTES,
    bodyHash: BYTES,
    purpose: TEXT,
  },
  key: ['channel', 'pending'],
  parent: { table: 'epoch', by: ['channel', 'pending'] },
}

export const SENDER: Table<InChannel<SenderRecord>> = {
  name: 'sender',
  columns: {
    channel: TEXT,
    agent: TEXT,
    counter: INTEGER,
    ownHash: BYTES,
    accepted: { ...FLAG, extra: 'DEFAULT 0' },
  },
  key: ['channel', 'agent'],
  parent: { table: 'channel', by: ['channel'] },
}

export const LEAVER: Table<InChannel<LeaverRecord>> = {
  name: 'leaver',
  columns: { channel: TEXT, agent: TEXT, publicKey: BYTES, slot: INTEGER, leafKeys: KEYS, signature: BYTES },
  key: ['channel', 'agent'],
  parent: { table: 'channel', by: ['channel'] },
}
