/** Tables of invites: own ones, those who came by them, and joins of this agent that are under way. */
import type { AttemptRecord, InviteRecord, JoinerRecord } from '../../ports.ts'
import { BYTES, FLAG, INTEGER, oneOf, type Table, TEXT } from '../table.ts'

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
    state: oneOf('taken', 'added', 'here', 'gone'),
    since: INTEGER,
  },
  key: ['channel', 'agent'],
  parent: { table: 'invite', by: ['invite'] },
}

/** Of a channel that this agent is not in yet: it belongs to none. */
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
