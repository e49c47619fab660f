/** Invites as rows, the same in SQLite and PostgreSQL. */
import { fromHex, toHex } from '@static/protocol'
import type { Invite, Time } from '../../ports.ts'

/** A row of `invites`. */
export type InviteRow = readonly [
  id: string,
  channel: Uint8Array,
  agent: Uint8Array,
  admissionKey: Uint8Array,
  expiresAt: Time,
  maxUses: number,
  uses: number,
  revoked: 0 | 1,
  members: 0 | 1,
  boxKey: Uint8Array | null,
]

export function readInvite(row: InviteRow): Invite {
  const [id, channel, agent, admissionKey, expiresAt, maxUses, uses, revoked, members, boxKey] = row
  return {
    id,
    channel: toHex(channel),
    agent: toHex(agent),
    admissionKey,
    expiresAt,
    maxUses,
    uses,
    revoked: revoked === 1,
    members: members === 1,
    ...(boxKey && { boxKey }),
  }
}

export function inviteRow(invite: Invite): InviteRow {
  const { id, channel, agent, admissionKey, expiresAt, maxUses, uses, revoked, members, boxKey = null } = invite
  const flags = [revoked ? 1 : 0, members ? 1 : 0] as const
  return [id, fromHex(channel), fromHex(agent), admissionKey, expiresAt, maxUses, uses, ...flags, boxKey]
}
