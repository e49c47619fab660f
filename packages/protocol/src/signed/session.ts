/** How a session opens: the protocol revision, and what an agent signs (SPEC.md, "Sessions"). */
import { signedBytes } from './layout.ts'

/** The TLS application protocol (ALPN) on the QUIC port. */
export const ALPN = 'static-relay/1'
/** The revision of the schema. Every new field increments it; a session uses the lower revision of its two ends. */
export const REVISION = 2
/** The lowest revision accepted from a peer. */
export const OLDEST_REVISION = 2
/** The metadata that carries the session token of unary calls. */
export const SESSION_METADATA = 'static-session'
/** The trailer of a refused unary call that carries the encoded Error, whose fields do not fit in gRPC's status. */
export const ERROR_METADATA = 'static-error-bin'

/** The purpose of an agent's signature of a challenge. */
export const PURPOSES = ['session', 'unary', 'refresh'] as const
export type SessionPurpose = (typeof PURPOSES)[number]

/** The traffic profiles of a session, from the one that hides the least to the one that hides the most. */
export const TRAFFIC_PROFILES: readonly TrafficProfileName[] = ['off', 'standard', 'private', 'strict']
/** How much of its traffic an agent hides, least first. */
export type TrafficProfileName = 'off' | 'standard' | 'private' | 'strict'

/** The profiles that an operator allows. */
export interface TrafficRange {
  readonly floor: TrafficProfileName
  readonly ceiling: TrafficProfileName
}

export const ALL_TRAFFIC: TrafficRange = { floor: 'off', ceiling: 'strict' }

/** The message for an agent whose profile is not allowed; undefined if it is. */
export function outsideRange(profile: TrafficProfileName, { floor, ceiling }: TrafficRange): string | undefined {
  const rank = TRAFFIC_PROFILES.indexOf(profile)
  if (rank < TRAFFIC_PROFILES.indexOf(floor)) {
    return `The traffic profile ${profile} is below the minimum of this relay. Use ${floor} or higher.`
  }
  if (rank > TRAFFIC_PROFILES.indexOf(ceiling)) {
    return `The traffic profile ${profile} is above the maximum of this relay. Use ${ceiling} or lower.`
  }
  return undefined
}

/** The content that an agent signs to open or refresh a session. */
export interface SessionClaim {
  readonly purpose: SessionPurpose
  readonly revision: number
  /** The name in the challenge, which must equal the server name that TLS verified. */
  readonly relayName: string
  readonly relayId: Uint8Array
  readonly relayNonce: Uint8Array
  readonly agentNonce: Uint8Array
  /** SHA-256 of the JWT; undefined for a guest. */
  readonly jwtHash: Uint8Array | undefined
  readonly traffic: TrafficProfileName
  /** The rate of the strict profile if it is not the default; otherwise 0. */
  readonly cellsPerSecond: number
}

const NO_JWT = new Uint8Array(32)

/** The bytes that an agent signs to open or refresh a session. */
export function sessionBytes(claim: SessionClaim): Uint8Array<ArrayBuffer> {
  const rate = claim.cellsPerSecond === 0 ? '' : `/${claim.cellsPerSecond}`
  return signedBytes(`${ALPN} session`, [
    claim.purpose,
    BigInt(claim.revision),
    claim.relayName,
    claim.relayId,
    claim.relayNonce,
    claim.agentNonce,
    claim.jwtHash ?? NO_JWT,
    `${claim.traffic}${rate}`,
  ])
}
