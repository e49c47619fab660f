/** Values of the SDK as JSON values, which a program in another language can read. */
import { StaticError, toHex } from '@static/protocol'
import type { AgentEvent } from '../agent/events.ts'
import type { ChannelMember, ListedMember } from '../public/envelope.ts'
import type { IssuedInvite } from '../admitting/issued.ts'
import type { MemberReceipt } from '../public/receipts.ts'
import { failureOf } from './failure.ts'

export function plainMember({ agentId, fingerprint, identity }: ChannelMember): unknown {
  return { agentId, fingerprint, identity: toHex(identity) }
}

export function plainListedMember({ vouched, ...member }: ListedMember): unknown {
  return { ...(plainMember(member) as object), vouched: vouched ?? null }
}

export function plainReceipt({ at, identity, ...receipt }: MemberReceipt): unknown {
  return { ...receipt, identity: toHex(identity), at: at?.getTime() ?? null }
}

export function plainInvite({ expiresAt, ...invite }: IssuedInvite): unknown {
  return { ...invite, expiresAt: expiresAt.getTime() / 1000 }
}

/** Converts errors and bytes in an event. */
export function plainEvent(event: AgentEvent): unknown {
  const fields = Object.entries(event).map(([name, value]): [string, unknown] => {
    if (value instanceof StaticError) return [name, failureOf(value)]
    return [name, value instanceof Uint8Array ? toHex(value) : value]
  })
  return Object.fromEntries(fields)
}
