/**
 * Who a leaf is (RFC 9420, section 5.3): a basic credential whose bytes are the identity that the agent calls itself.
 * It proves nothing: an agent is known by its signature key, and the agent id is that key's hash. The leaf that founds
 * a group has a credential no member can have, because an identity does not start with a zero byte.
 */
import { StaticError } from '@static/protocol'
import { equal } from './bytes.ts'
import { sha256 } from './hash.ts'

/** The longest identity. */
export const MAX_IDENTITY_BYTES = 255

/** The credential of a founder leaf. */
export const FOUNDER_IDENTITY: Uint8Array = new TextEncoder().encode('\0static founder')

/** Whether a credential's bytes mark the founder leaf. */
export function isFounder(identity: Uint8Array): boolean {
  return equal(identity, FOUNDER_IDENTITY)
}

/** Whether bytes can be a member's identity. */
export function isIdentity(bytes: Uint8Array): boolean {
  return bytes.length > 0 && bytes.length <= MAX_IDENTITY_BYTES && bytes[0] !== 0
}

/**
 * The bytes of a member's credential.
 *
 * @throws {StaticError} `invalid_request` when they cannot be an identity
 */
export function memberIdentity(bytes: Uint8Array): Uint8Array {
  if (!isIdentity(bytes))
    throw StaticError.of('invalid_request', `An identity is 1 to ${MAX_IDENTITY_BYTES} bytes, the first not zero.`)
  return Uint8Array.from(bytes)
}

/** The id of the agent that has this signature key, which is also the key's fingerprint. */
export function agentIdOf(signatureKey: Uint8Array): Uint8Array {
  return sha256(signatureKey)
}
