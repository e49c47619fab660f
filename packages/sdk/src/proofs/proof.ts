/**
 * A proof: what an issuer says about the key of an agent, countersigned with that key (SPEC.md, 7.1).
 *
 *     01 ‖ kind(1) ‖ salt(16) ‖ length of the JWT(2) ‖ JWT ‖ signature(64)
 *
 * The countersignature keeps a member from showing the proof in another channel, at another place or as its own, and an
 * issuer from naming the key of an agent that does not agree. Whether the issuer is one to believe: `check.ts`.
 */
import { ed25519, sha256, type Signer } from '#platform/crypto'
import { lengthPrefixed, SIGNATURE_BYTES, signedBytes } from '@static/protocol'
import { latin1, toBase64url, utf8, viewOf } from '../platform/bytes.ts'

/** The largest proof. It travels in the second size of messages (SPEC.md, 4.2). */
export const MAX_PROOF_BYTES = 4096
export const SALT_BYTES = 16

/**
 * `token`: a short-lived JWT of an OIDC issuer or of SPIFFE, bound by its audience. `statement`: the statement of a
 * domain, bound by the thumbprint of the agent's key.
 */
export type ProofKind = 'token' | 'statement'

const VERSION = 1
const KINDS: readonly (ProofKind | undefined)[] = [undefined, 'token', 'statement']
const JWT_AT = 4 + SALT_BYTES
const JWT_CHARACTERS = /^[\w.-]+$/

/** The parts of a proof. */
export interface Proof {
  readonly kind: ProofKind
  readonly salt: Uint8Array
  readonly jwt: string
  readonly signature: Uint8Array
}

/** The member that shows a proof, and where. A proof is valid in one context only. */
export interface ProofContext {
  readonly channelId: Uint8Array
  /** Agent id of the owner in the epoch in which the proof is shown. */
  readonly ownerId: Uint8Array
  /** The Ed25519 key of the member's leaf. */
  readonly publicKey: Uint8Array
  /** In a join box SHA-256 of the KeyPackage, otherwise the index of the entry that added the agent (0: it founded). */
  readonly place: Uint8Array | number
}

/** The audience that a token must have. The salt hides the agent and the channel from the issuer. */
export function audienceOf({ channelId, publicKey }: ProofContext, salt: Uint8Array): string {
  const fields = lengthPrefixed(['static audience 1', channelId, sha256(publicKey), salt])
  return `static:${toBase64url(sha256(fields))}`
}

/**
 * Countersigns a JWT. `sign` is with the key of the context.
 *
 * @returns undefined if the JWT has characters that no JWT has, or does not fit into a proof
 */
export function makeProof(
  { kind, salt, jwt }: Omit<Proof, 'signature'>,
  context: ProofContext,
  sign: Signer,
): Uint8Array | undefined {
  const length = JWT_AT + jwt.length + SIGNATURE_BYTES
  if (!JWT_CHARACTERS.test(jwt) || length > MAX_PROOF_BYTES) return undefined
  const bytes = new Uint8Array(length)
  bytes[0] = VERSION
  bytes[1] = KINDS.indexOf(kind)
  bytes.set(salt, 2)
  viewOf(bytes).setUint16(2 + SALT_BYTES, jwt.length)
  bytes.set(utf8(jwt), JWT_AT)
  bytes.set(sign(countersignedBytes({ kind, salt, jwt }, context)), JWT_AT + jwt.length)
  return bytes
}

/** Decodes a proof; undefined for anything that `makeProof` does not make. Its signature is not checked. */
export function decodeProof(bytes: Uint8Array): Proof | undefined {
  const { length } = bytes
  const kind = KINDS[bytes[1] ?? 0]
  if (length > MAX_PROOF_BYTES || length <= JWT_AT + SIGNATURE_BYTES || bytes[0] !== VERSION || !kind) return undefined
  const end = JWT_AT + viewOf(bytes).getUint16(2 + SALT_BYTES)
  const jwt = latin1(bytes.subarray(JWT_AT, end))
  if (end + SIGNATURE_BYTES !== length || !JWT_CHARACTERS.test(jwt)) return undefined
  return { kind, salt: bytes.slice(2, 2 + SALT_BYTES), jwt, signature: bytes.slice(end) }
}

/** Whether the member of the context has countersigned the proof for it. */
export function isCountersigned(proof: Proof, context: ProofContext): boolean {
  return ed25519.verifier(context.publicKey)(countersignedBytes(proof, context), proof.signature)
}

function countersignedBytes({ kind, salt, jwt }: Omit<Proof, 'signature'>, context: ProofContext): Uint8Array {
  const { channelId, ownerId, publicKey, place } = context
  return signedBytes('static proof 1', [
    channelId,
    ownerId,
    sha256(publicKey),
    BigInt(KINDS.indexOf(kind)),
    salt,
    sha256(utf8(jwt)),
    typeof place === 'number' ? BigInt(place) : place,
  ])
}
