/** Checks of request fields that the schema cannot say. What they throw is the answer. */
import {
  AGENT_ID_BYTES,
  CHANNEL_ID_BYTES,
  MAX_LEAF_KEYS,
  PUBLIC_KEY_BYTES,
  SIGNATURE_BYTES,
  StaticError,
  toHex,
} from '@static/protocol'
import type { LeaveNotice } from '@static/protocol/relay'
import type { Account, AgentId, ChannelId } from '../ports.ts'
import type { PendingRequest } from './pending-request.ts'

/** A field is wrong; the words complete the sentence "A request is refused unless …". */
export function wrong(rule: string): StaticError {
  return StaticError.of('invalid_request', `Refused, because it must hold: ${rule}.`)
}

/** An id of a fixed length as a text. */
export function idOf(bytes: Uint8Array, length: number, field: string): string {
  if (bytes.length !== length) throw wrong(`${field} has ${length} bytes`)
  return toHex(bytes)
}

export function channelIdOf(bytes: Uint8Array): ChannelId {
  return idOf(bytes, CHANNEL_ID_BYTES, 'channel_id')
}

export function agentIdOf(bytes: Uint8Array): AgentId {
  return idOf(bytes, AGENT_ID_BYTES, 'agent_id')
}

/** A number of the wire; beyond what a double holds exactly it is nobody's. */
export function numberOf(value: bigint, field: string): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw wrong(`${field} is below 2^53`)
  return Number(value)
}

/** The account that the caller acts for. Guests get `api_key_required`. */
export function accountOf({ caller }: PendingRequest): Account {
  if (!caller.account) throw StaticError.of('api_key_required')
  return caller.account
}

/** Checks the lengths in a leave notice. */
export function checkNotice({ publicKey, leafKeys, signature }: LeaveNotice): void {
  if (publicKey.length !== PUBLIC_KEY_BYTES) throw wrong('public_key has 32 bytes')
  if (signature.length !== SIGNATURE_BYTES) throw wrong('signature has 64 bytes')
  if (leafKeys.length === 0 || leafKeys.length > MAX_LEAF_KEYS) throw wrong('leaf_keys has one or two keys')
  if (leafKeys.some(({ length }) => length !== PUBLIC_KEY_BYTES)) throw wrong('a leaf key has 32 bytes')
}
