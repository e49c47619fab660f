/** The SDK's values as JSON values, which a program in another language can read. */
import { StaticError, toHex } from '@static/protocol'
import type { AgentEvent } from '../agent/events.ts'
import { type MemberProof, shownProof } from '../channel/proving/member-proof.ts'
import type { ChannelMember, ListedMember } from '../public/received/member.ts'
import type { IssuedInvite } from '../admitting/issued.ts'
import type { MemberReceipt } from '../public/receipt-view.ts'
import type { PlainError, PlainMember } from './pipe-protocol.ts'

export function plainMember({ agentId, fingerprint, identity, proof }: ChannelMember): PlainMember {
  return { agentId, fingerprint, identity: toHex(identity), ...(proof && { proof: plainProof(proof) }) }
}

/** `shown` is the name that we make of it. */
function plainProof(proof: MemberProof): object {
  const shown = shownProof(proof)
  return proof.state === 'checked' ? { ...proof, shown, until: proof.until.getTime() } : { ...proof, shown }
}

export function plainListedMember({ vouched, ...member }: ListedMember): unknown {
  return { ...plainMember(member), vouched: vouched ?? null }
}

export function plainReceipt({ at, identity, ...receipt }: MemberReceipt): unknown {
  return { ...receipt, identity: toHex(identity), at: at?.getTime() ?? null }
}

export function plainInvite({ expiresAt, ...invite }: IssuedInvite): unknown {
  return { ...invite, expiresAt: expiresAt.getTime() / 1000 }
}

/** The cause is included: the program runs on the same machine as the same user. */
export function plainError(error: unknown): PlainError {
  const { code, message, cause, docUrl } = StaticError.from(error).toJSON()
  return { code, message, ...(docUrl !== undefined && { docUrl }), ...(cause !== undefined && { cause }) }
}

/** Converts errors, times and bytes in an event. */
export function plainEvent(event: AgentEvent): unknown {
  const fields = Object.entries(event).map(([name, value]): [string, unknown] => {
    if (value instanceof StaticError) return [name, plainError(value)]
    if (name === 'proof' && value !== undefined) return [name, plainProof(value as MemberProof)]
    if (value instanceof Date) return [name, value.getTime()]
    return [name, value instanceof Uint8Array ? toHex(value) : value]
  })
  return Object.fromEntries(fields)
}

/** The options of a call that are given. */
export function given<Options extends object, Name extends keyof Options>(
  call: Options,
  ...names: readonly Name[]
): Pick<Options, Name> {
  return Object.fromEntries(names.flatMap((name) => (call[name] === undefined ? [] : [[name, call[name]]]))) as Pick<
    Options,
    Name
  >
}
