/** Tables for proofs of who runs an agent: what this agent shows in a channel, and what its members have shown. */
import type { MemberProofRecord, OwnProofRecord } from '../../ports/index.ts'
import { FLAG, INTEGER, OPTIONAL_BYTES, OPTIONAL_TEXT, type Table, TEXT } from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

export const OWN_PROOF: Table<InChannel<OwnProofRecord>> = {
  name: 'own_proof',
  columns: {
    channel: TEXT,
    place: INTEGER,
    show: OPTIONAL_TEXT,
    due: FLAG,
    shownAt: INTEGER,
    require: OPTIONAL_TEXT,
  },
  key: ['channel'],
  parent: { table: 'channel', by: ['channel'] },
}

export const MEMBER_PROOF: Table<InChannel<MemberProofRecord>> = {
  name: 'member_proof',
  columns: {
    channel: TEXT,
    agent: TEXT,
    verdict: OPTIONAL_TEXT,
    pending: OPTIONAL_BYTES,
    demand: OPTIONAL_TEXT,
    demandedAt: INTEGER,
  },
  key: ['channel', 'agent'],
  parent: { table: 'channel', by: ['channel'] },
}
