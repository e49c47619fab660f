/** Tables of the agent as a whole. */
import type { AgentId, IdentityRecord, KnownRelay, KeyPackageRecord, RemovedRecord } from '../../ports/index.ts'
import { BYTES, FLAG, INTEGER, type Table, TEXT } from '../rows/table.ts'

/** One row. */
export const IDENTITY: Table<IdentityRecord & { readonly one: number }> = {
  name: 'identity',
  columns: {
    one: { ...INTEGER, extra: 'CHECK (one = 1)' },
    identity: BYTES,
    publicKey: BYTES,
    secretKey: BYTES,
  },
  key: ['one'],
  rowid: true,
}

export const KEY_PACKAGE: Table<KeyPackageRecord> = {
  name: 'key_package',
  columns: { ref: TEXT, keyPackage: BYTES, privatePart: BYTES, createdAt: INTEGER, pooled: FLAG },
  key: ['ref'],
}

/** Channels that this agent was removed from and that have no other data left. */
export const REMOVED: Table<RemovedRecord> = {
  name: 'removed',
  columns: { name: TEXT, at: INTEGER },
  key: ['name'],
}

/** The pinned key of an identity in the channels of an owner. */
export const PIN: Table<{ readonly owner: AgentId; readonly identity: Uint8Array; readonly agent: AgentId }> = {
  name: 'pin',
  columns: { owner: TEXT, identity: BYTES, agent: TEXT },
  key: ['owner', 'identity'],
}

/** The pinned relays, by the name in their certificate. */
export const RELAY: Table<KnownRelay & { readonly relayName: string }> = {
  name: 'relay',
  columns: { relayName: TEXT, relayId: BYTES, grpcPort: INTEGER },
  key: ['relayName'],
}
