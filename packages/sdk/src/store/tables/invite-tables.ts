/**
 * Tables of invites: issued ones, the agents that joined with them, those that members may use, and this agent's own
 * joins in progress.
 */
import type {
  AttemptRecord,
  ClaimRecord,
  InviteListRecord,
  InviteRecord,
  JoinerRecord,
  UseRecord,
} from '../../ports/index.ts'
import {
  BYTES,
  FLAG,
  INTEGER,
  type Column,
  oneOf,
  OPTIONAL_BYTES,
  OPTIONAL_TEXT,
  type Table,
  TEXT,
} from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

const OPTIONAL_FLAG: Column<boolean | undefined> = {
  type: 'INTEGER',
  nullable: true,
  write: (flag) => (flag === undefined ? null : Number(flag)),
  read: (value, column) => (value === null ? undefined : FLAG.read(value, column)),
}

export const INVITE: Table<InviteRecord> = {
  name: 'invite',
  columns: {
    id: TEXT,
    channel: TEXT,
    secret: BYTES,
    expiresAt: INTEGER,
    maxUses: INTEGER,
    uses: INTEGER,
    returned: INTEGER,
    revoked: FLAG,
    admit: oneOf('owner', 'members'),
    boxSecret: OPTIONAL_BYTES,
    require: OPTIONAL_TEXT,
    replaces: OPTIONAL_FLAG,
  },
  key: ['id'],
  parent: { table: 'channel', by: ['channel'] },
}

export const JOINER: Table<JoinerRecord> = {
  name: 'joiner',
  columns: {
    channel: TEXT,
    agent: TEXT,
    invite: TEXT,
    nonce: BYTES,
    keyPackageHash: BYTES,
    spent: BYTES,
    state: oneOf('taken', 'added', 'here', 'gone'),
    since: INTEGER,
    verdict: OPTIONAL_TEXT,
  },
  key: ['channel', 'agent'],
  parent: { table: 'invite', by: ['invite'] },
}

/** Has no parent: this agent is not a member of the channel yet. */
export const ATTEMPT: Table<AttemptRecord> = {
  name: 'attempt',
  columns: {
    invite: TEXT,
    channel: TEXT,
    name: TEXT,
    owner: TEXT,
    secret: BYTES,
    expiresAt: INTEGER,
    nonce: BYTES,
    keyPackage: BYTES,
    admit: oneOf('owner', 'members'),
    takenBack: FLAG,
    boxKeyHash: OPTIONAL_BYTES,
    show: OPTIONAL_TEXT,
  },
  key: ['invite'],
}

/** The list is opaque here, and so are its counts. */
export const INVITE_LIST: Table<InChannel<InviteListRecord>> = {
  name: 'invite_list',
  columns: { channel: TEXT, list: BYTES, counts: BYTES, due: FLAG },
  key: ['channel'],
  parent: { table: 'channel', by: ['channel'] },
}

export const USE: Table<InChannel<UseRecord>> = {
  name: 'invite_use',
  columns: {
    channel: TEXT,
    agent: TEXT,
    slot: INTEGER,
    invite: TEXT,
    leafKey: BYTES,
    by: { ...TEXT, name: 'added_by' },
    since: INTEGER,
    state: oneOf('added', 'heard', 'here', 'removing', 'returned'),
    beyond: FLAG,
  },
  key: ['channel', 'agent', 'slot'],
  parent: { table: 'channel', by: ['channel'] },
}

export const CLAIM: Table<InChannel<ClaimRecord>> = {
  name: 'claim',
  columns: { channel: TEXT, by: { ...TEXT, name: 'claimed_by' }, claims: BYTES },
  key: ['channel', 'by'],
  parent: { table: 'channel', by: ['channel'] },
}
