/** Tables for what members have seen: the last hashes of the chain, stays, and receipts. */
import { RECEIPT_MODES } from '@static/protocol'
import type { ChainRecord, OwnReceiptRecord, StayRecord } from '../../ports/index.ts'
import { BYTES, type Column, FLAG, INTEGER, oneOf, type Table, TEXT } from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

export const CHAIN: Table<InChannel<ChainRecord>> = {
  name: 'chain',
  columns: { channel: TEXT, first: INTEGER, hashes: BYTES, own: BYTES },
  key: ['channel', 'first'],
  parent: { table: 'channel', by: ['channel'] },
}

export const OWN_RECEIPT: Table<InChannel<OwnReceiptRecord>> = {
  name: 'own_receipt',
  columns: { channel: TEXT, since: INTEGER, aside: INTEGER },
  key: ['channel'],
  parent: { table: 'channel', by: ['channel'] },
}

/** Marks a missing ending or receipt in a row. */
const NONE = 'none'
const ENDING: Column<StayRow['ending']> = oneOf('left', 'removed', NONE)
const MODE: Column<StayRow['mode']> = oneOf(...RECEIPT_MODES, NONE)

/** A stay with its receipt flattened. */
export interface StayRow extends Omit<StayRecord, 'ending' | 'receipt'> {
  readonly ending: NonNullable<StayRecord['ending']> | typeof NONE
  readonly mode: NonNullable<StayRecord['receipt']>['mode'] | typeof NONE
  readonly since: number
  readonly index: number
  readonly aside: number
  readonly settled: number
  readonly heardAt: number
}

export const STAY: Table<InChannel<StayRow>> = {
  name: 'stay',
  columns: {
    channel: TEXT,
    agent: TEXT,
    addedAt: INTEGER,
    ending: ENDING,
    endedAt: INTEGER,
    vouched: FLAG,
    mode: MODE,
    since: INTEGER,
    index: { ...INTEGER, name: 'log_index' },
    aside: INTEGER,
    settled: INTEGER,
    heardAt: INTEGER,
  },
  key: ['channel', 'agent', 'addedAt'],
  parent: { table: 'channel', by: ['channel'] },
}

const NO_RECEIPT = { mode: NONE, since: 0, index: 0, aside: 0, settled: 0, heardAt: 0 } as const

export function stayRow({ receipt, ending, ...stay }: StayRecord): StayRow {
  return { ...stay, ending: ending ?? NONE, ...(receipt ?? NO_RECEIPT) }
}

export function stayRecord({ agent, addedAt, endedAt, vouched, ending, mode, ...receipt }: StayRow): StayRecord {
  const { since, index, aside, settled, heardAt } = receipt
  return {
    agent,
    addedAt,
    endedAt,
    vouched,
    ending: ending === NONE ? undefined : ending,
    receipt: mode === NONE ? undefined : { mode, since, index, aside, settled, heardAt },
  }
}
