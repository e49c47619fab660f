/** Checks of request fields that the schema cannot express. The thrown error is the response. */
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
import type { Account, AgentId, ChannelId } from '../../ports.ts'
import type { PendingRequest } from './pending-request.ts'

/** The error for an invalid field: a sentence that names the field as in the .proto, without the full stop. */
export function wrong(problem: string): StaticError {
  return StaticError.of('invalid_request', `${problem}.`)
}

/** Checks the length of a field. */
export function checkLength(bytes: Uint8Array, length: number, field: string): void {
  if (bytes.length !== length) throw wrong(`\`${field}\` must be ${length} bytes, not ${bytes.length}`)
}

/** An id of a fixed length, in hexadecimal. */
export function idOf(bytes: Uint8Array, length: number, field: string): string {
  checkLength(bytes, length, field)
  return toHex(bytes)
}

export function channelIdOf(bytes: Uint8Array): ChannelId {
  return idOf(bytes, CHANNEL_ID_BYTES, 'channel_id')
}

export function agentIdOf(bytes: Uint8Array): AgentId {
  return idOf(bytes, AGENT_ID_BYTES, 'agent_id')
}

/** A 64-bit number from the wire, which a double must represent exactly. */
export function numberOf(value: bigint, field: string): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw wrong(`\`${field}\` must be below 2^53, not ${value}`)
  return Number(value)
}

/** The caller's account. Guests get `api_key_required`. */
export function accountOf({ caller }: PendingRequest): Account {
  if (!caller.account) throw StaticError.of('api_key_required')
  return caller.account
}

/** Checks the lengths in a leave notice. */
export function checkNotice({ publicKey, leafKeys, signature }: LeaveNotice): void {
  checkLength(publicKey, PUBLIC_KEY_BYTES, 'public_key')
  checkLength(signature, SIGNATURE_BYTES, 'signature')
  if (leafKeys.length === 0 || leafKeys.length > MAX_LEAF_KEYS) {
    throw wrong(`\`leaf_keys\` must have 1 to ${MAX_LEAF_KEYS} keys, not ${leafKeys.length}`)
  }
  for (const key of leafKeys) checkLength(key, PUBLIC_KEY_BYTES, 'leaf_keys')
}
