/** An agent's key, and the signatures that the relay requires. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, type KeyObject, sign } from 'node:crypto'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import {
  declarationBytes,
  leaveBytes,
  REVISION,
  type RosterClaim,
  rosterBytes,
  sessionBytes,
  type SessionPurpose,
  type TrafficProfileName,
  type VouchClaim,
  vouchBytes,
} from '@static/protocol'
import {
  type Declaration,
  DeclarationSchema,
  type GetChallengeResponse,
  type LeaveNotice,
  LeaveNoticeSchema,
  type OpenSessionRequestSchema,
  Purpose,
  TrafficProfile,
} from '@static/protocol/relay'

/** An agent's key. */
export interface AgentKey {
  readonly privateKey: KeyObject
  readonly publicKey: Uint8Array
  readonly id: Uint8Array
}

/** The fields that an opening announces. */
export interface Traffic {
  readonly profile: TrafficProfileName
  readonly cellsPerSecond: number
}

/** The declared effect of a commit. */
export interface Change {
  readonly adds?: Uint8Array[]
  readonly removes?: Uint8Array[]
  readonly leaveNotices?: LeaveNotice[]
  readonly vouches?: Uint8Array[]
  readonly owner?: Uint8Array
  readonly standby?: Uint8Array
}

/** Inputs for opening a session, besides the key. */
export interface Opening {
  readonly agentNonce: Uint8Array
  /** Empty for a guest. */
  readonly jwt: string
  readonly traffic: Traffic
}

export const NO_TRAFFIC: Traffic = { profile: 'off', cellsPerSecond: 0 }

const PROFILES = {
  off: TrafficProfile.OFF,
  standard: TrafficProfile.STANDARD,
  private: TrafficProfile.PRIVATE,
  strict: TrafficProfile.STRICT,
} as const

/** Prefix of the 32 bytes of a key (RFC 8410). */
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex')

export function makeKey(): AgentKey {
  const { privateKey, publicKey: key } = generateKeyPairSync('ed25519')
  const publicKey = new Uint8Array(Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url'))
  return { privateKey, publicKey, id: sha256(publicKey) }
}

/** The same key for the same 32 bytes, for tests whose history must not change. */
export function keyFrom(secret: Uint8Array): AgentKey {
  const der = Buffer.concat([PKCS8_ED25519, secret])
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  const publicKey = new Uint8Array(Buffer.from(x, 'base64url'))
  return { privateKey, publicKey, id: sha256(publicKey) }
}

export function sha256(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(hash('sha256', bytes, 'buffer'))
}

/** The answer to a challenge that opens a session, or returns a token for calls. */
export function openingOf(
  key: AgentKey,
  purpose: 'session' | 'unary',
  challenge: GetChallengeResponse,
  opening: Opening,
): MessageInitShape<typeof OpenSessionRequestSchema> {
  const { agentNonce, jwt, traffic } = opening
  return {
    purpose: purpose === 'session' ? Purpose.SESSION : Purpose.UNARY,
    revision: REVISION,
    publicKey: key.publicKey,
    relayNonce: challenge.nonce,
    agentNonce,
    jwt,
    trafficProfile: PROFILES[traffic.profile],
    cellsPerSecond: traffic.cellsPerSecond,
    signature: signSession(key, purpose, challenge, opening),
  }
}

/** The signature under the answer to a challenge. */
export function signSession(
  key: AgentKey,
  purpose: SessionPurpose,
  challenge: GetChallengeResponse,
  { agentNonce, jwt, traffic }: Opening,
): Uint8Array {
  const bytes = sessionBytes({
    purpose,
    revision: REVISION,
    relayName: challenge.relayName,
    relayId: challenge.relayId,
    relayNonce: challenge.nonce,
    agentNonce,
    jwtHash: jwt === '' ? undefined : sha256(Buffer.from(jwt)),
    traffic: traffic.profile,
    cellsPerSecond: traffic.cellsPerSecond,
  })
  return new Uint8Array(sign(null, bytes, key.privateKey))
}

/** The owner's signature under a roster. */
export function signRoster(key: AgentKey, claim: RosterClaim): Uint8Array {
  return new Uint8Array(sign(null, rosterBytes(claim), key.privateKey))
}

/** The owner's signature under a vouch. */
export function signVouch(key: AgentKey, claim: VouchClaim): Uint8Array {
  return new Uint8Array(sign(null, vouchBytes(claim), key.privateKey))
}

/** A signed declaration of the effect of a commit. */
export function declare(
  key: AgentKey,
  place: {
    readonly channelId: Uint8Array
    readonly slot: bigint
    readonly messageId: Uint8Array
    readonly commit: Uint8Array
  },
  change: Change,
): Declaration {
  const declaration = create(DeclarationSchema, change)
  const bytes = declarationBytes({ ...place, commitHash: sha256(place.commit) }, declaration)
  declaration.signature = new Uint8Array(sign(null, bytes, key.privateKey))
  return declaration
}

/** A signed notice that an agent leaves a channel. */
export function leaveNotice(key: AgentKey, channelId: Uint8Array, slot: bigint): LeaveNotice {
  // Without MLS there is no leaf: any key will do.
  const leafKeys = [key.publicKey]
  const signature = new Uint8Array(sign(null, leaveBytes(channelId, { slot, leafKeys }), key.privateKey))
  return create(LeaveNoticeSchema, { publicKey: key.publicKey, slot, leafKeys, signature })
}
