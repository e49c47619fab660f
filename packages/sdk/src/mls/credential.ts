/**
 * The credential of a leaf (RFC 9420, section 5.3): basic, its bytes the identity the agent claims. It proves nothing:
 * an agent is identified by its signature key, and the agent id is the hash of that key. The founder leaf has a
 * credential that no member can have, because an identity must not start with a zero byte.
 */
import { sameBytes } from '#platform/crypto'
import { StaticError } from '@static/protocol'
import { sha256 } from './hash.ts'

/** The maximum length of an identity, in bytes. */
export const MAX_IDENTITY_BYTES = 255

/** The credential of the founder leaf. */
export const FOUNDER_IDENTITY: Uint8Array = new TextEncoder().encode('\0static founder')

/** Whether a credential is that of the founder leaf. */
export function isFounder(identity: Uint8Array): boolean {
  return sameBytes(identity, FOUNDER_IDENTITY)
}

/** Whether the bytes are a valid identity of a member. */
export function isIdentity(bytes: Uint8Array): boolean {
  return bytes.length > 0 && bytes.length <= MAX_IDENTITY_BYTES && bytes[0] !== 0
}

/**
 * Returns a copy of an identity for a member's credential.
 *
 * @throws {StaticError} `invalid_request` if it is not a valid identity
 */
export function memberIdentity(bytes: Uint8Array): Uint8Array {
  if (!isIdentity(bytes))
    throw StaticError.of(
      'invalid_request',
      `An identity must be 1 to ${MAX_IDENTITY_BYTES} bytes, the first not zero; this one is ${bytes.length} bytes.`,
    )
  return Uint8Array.from(bytes)
}

/** The id of the agent with this signature key: the key's fingerprint. */
export function agentIdOf(signatureKey: Uint8Array): Uint8Array {
  return sha256(signatureKey)
}
