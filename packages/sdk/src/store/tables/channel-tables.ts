/** Tables of a channel. Rows that change with every message are small; the large parts have their own tables. */
import type {
  ChannelId,
  ChannelRecord,
  EpochPlace,
  LeaverRecord,
  PendingCommitRecord,
  PositionRecord,
  SenderRecord,
} from '../../ports/index.ts'
import { BYTES, type Column, FLAG, INTEGER, KEYS, oneOf, OPTIONAL_TEXT, type Table, TEXT } from '../rows/table.ts'

/** A record with the channel it belongs to. */
export type InChannel<Row> = Row & { readonly channel: ChannelId }

/** Value of the column `pending`: the current epoch. */
export const CURRENT = 0
/** Value of the column `pending`: the epoch that a commit of this agent would lead to. */
export const PENDING = 1

/** A channel's record with its position and epoch flattened. */
export interface ChannelRow extends Omit<ChannelRecord, 'position' | 'epoch'> {
  readonly positionIndex: PositionRecord['index']
  readonly positionHash: PositionRecord['hash']
  readonly positionSlot: PositionRecord['slot']
  readonly epochIndex: EpochPlace['index']
  readonly epochCounter: EpochPlace['counter']
  readonly epochProven: EpochPlace['isProven']
  readonly epochHeardOwner: EpochPlace['hasHeardOwner']
  readonly epochLeftOut: EpochPlace['leftOut']
  readonly epochLeftOutBefore: EpochPlace['leftOutBefore']
  readonly epochDoubted: EpochPlace['doubted']
}

/** Agent ids, which have no spaces. */
const AGENTS: Column<readonly string[]> = {
  type: 'TEXT',
  write: (agents) => agents.join(' '),
  read: (value, column) => TEXT.read(value, column).split(' ').filter(Boolean),
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
    epochIndex: INTEGER,
    epochCounter: INTEGER,
    epochProven: FLAG,
    epochHeardOwner: FLAG,
    epochLeftOut: AGENTS,
    epochLeftOutBefore: AGENTS,
    epochDoubted: AGENTS,
    counter: INTEGER,
    ownHash: BYTES,
    rekeyDue: FLAG,
    rekeyedAt: INTEGER,
    rekeyDeferredAt: INTEGER,
    sentSinceRekey: INTEGER,
    fork: OPTIONAL_TEXT,
    broken: OPTIONAL_TEXT,
    leafKeys: KEYS,
    givenUpTo: INTEGER,
    servedUpTo: INTEGER,
    addedBy: { ...OPTIONAL_TEXT, name: 'offered_by' },
    offeredAt: INTEGER,
    confirmed: FLAG,
    takenUnconfirmed: FLAG,
    enteredUnder: OPTIONAL_TEXT,
    removalSlot: INTEGER,
  },
  key: ['id'],
}

/**
 * The row of a channel. Keeps `position` and `epoch`: a copy without them would take longer, and this runs for every
 * message.
 */
export function channelRow(record: ChannelRecord): ChannelRow {
  const { index, hash, slot } = record.position
  const { epoch } = record
  return {
    ...record,
    positionIndex: index,
    positionHash: hash,
    positionSlot: slot,
    epochIndex: epoch.index,
    epochCounter: epoch.counter,
    epochProven: epoch.isProven,
    epochHeardOwner: epoch.hasHeardOwner,
    epochLeftOut: epoch.leftOut,
    epochLeftOutBefore: epoch.leftOutBefore,
    epochDoubted: epoch.doubted,
  }
}

export function channelRecord(row: ChannelRow): ChannelRecord {
  const { positionIndex, positionHash, positionSlot, ...others } = row
  const { epochIndex, epochCounter, epochProven, epochHeardOwner, ...marks } = others
  const { epochLeftOut, epochLeftOutBefore, epochDoubted, ...rest } = marks
  return {
    ...rest,
    position: { index: positionIndex, hash: positionHash, slot: positionSlot },
    epoch: {
      index: epochIndex,
      counter: epochCounter,
      isProven: epochProven,
      hasHeardOwner: epochHeardOwner,
      leftOut: epochLeftOut,
      leftOutBefore: epochLeftOutBefore,
      doubted: epochDoubted,
    },
  }
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

/** A commit without the epoch it leads to; `pending` is always PENDING. */
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
