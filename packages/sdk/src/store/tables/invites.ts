/** Tables of invites: issued ones, the agents that joined with them, and this agent's own joins in progress. */
import type { AttemptRecord, InviteRecord, JoinerRecord } from '../../ports.ts'
import { BYTES, FLAG, INTEGER, oneOf, type Table, TEXT } from '../rows/table.ts'

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
    state: oneOf('taken', 'added', 'here'),
    since: INTEGER,
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
  },
  key: ['invite'],
}
