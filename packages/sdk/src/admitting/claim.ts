/**
 * Claims (SPEC.md, 6.5): before a member adds agents by invites, it names both to the group. Each claim is an invite
 * id(16) and an agent id(32).
 */
import { AGENT_ID_BYTES, INVITE_ID_BYTES, toHex } from '@static/protocol'
import type { AgentId } from '../ports/index.ts'

/** At most so many joiners are named by one frame, and so added by one commit. */
export const MOST_CLAIMED = 16

/** An agent that a member is about to add, and the invite that it joins with. */
export interface Claim {
  /** Invite id, hexadecimal. */
  readonly invite: string
  readonly agent: AgentId
}

const CLAIM_BYTES: number = INVITE_ID_BYTES + AGENT_ID_BYTES

export function encodeClaims(claims: readonly Claim[]): Uint8Array {
  return Buffer.from(claims.map(({ invite, agent }) => invite + agent).join(''), 'hex')
}

/** Decodes claims; undefined for anything that an honest member does not send. */
export function decodeClaims(bytes: Uint8Array): readonly Claim[] | undefined {
  const length = bytes.length / CLAIM_BYTES
  if (!Number.isInteger(length) || length < 1 || length > MOST_CLAIMED) return undefined
  return Array.from({ length }, (_, n) => {
    const claim = toHex(bytes.subarray(n * CLAIM_BYTES, (n + 1) * CLAIM_BYTES))
    return { invite: claim.slice(0, 2 * INVITE_ID_BYTES), agent: claim.slice(2 * INVITE_ID_BYTES) }
  })
}
