/** How a session opens: who speaks which revision, and what an agent signs (SPEC.md, "Sessions"). */
import { signedBytes } from './layout.ts'

/** The application protocol of TLS on the QUIC port. */
export const ALPN = 'static-relay/1'
/** The revision of the schema. A new field raises it; a session speaks the lower one of its two ends. */
export const REVISION = 1
/** The metadata that carries the session token of unary calls. */
export const SESSION_METADATA = 'static-session'
/** The trailer of a refused unary call that carries the encoded Error; gRPC's own status has no place for its fields. */
export const ERROR_METADATA = 'static-error-bin'

/** What an agent's signature under a challenge is for. */
export const PURPOSES = ['session', 'unary', 'refresh'] as const
export type SessionPurpose = (typeof PURPOSES)[number]

/** How the traffic of a session is shaped, from the one that hides least. */
export const TRAFFIC_PROFILES = ['off', 'standard', 'private', 'strict'] as const
export type TrafficProfileName = (typeof TRAFFIC_PROFILES)[number]

/** The profiles that an operator takes. */
export interface TrafficRange {
  readonly floor: TrafficProfileName
  readonly ceiling: TrafficProfileName
}

export const ALL_TRAFFIC: TrafficRange = { floor: 'off', ceiling: 'strict' }

/** What to tell an agent whose profile is not taken; nothing when it is. */
export function outsideRange(profile: TrafficProfileName, { floor, ceiling }: TrafficRange): string | undefined {
  const rank = TRAFFIC_PROFILES.indexOf(profile)
  if (rank < TRAFFIC_PROFILES.indexOf(floor)) return `This relay asks for the traffic profile ${floor} at least.`
  if (rank > TRAFFIC_PROFILES.indexOf(ceiling)) return `This relay offers no traffic profile beyond ${ceiling}.`
  return undefined
}

/** What an agent signs to open or refresh a session. */
export interface SessionClaim {
  readonly purpose: SessionPurpose
  readonly revision: number
  /** The name in the challenge, which must be the server name that TLS verified. */
  readonly relayName: string
  readonly relayId: Uint8Array
  readonly relayNonce: Uint8Array
  readonly agentNonce: Uint8Array
  /** SHA-256 of the JWT; none for a guest. */
  readonly jwtHash: Uint8Array | undefined
  readonly traffic: TrafficProfileName
  /** The rate of the strict profile when it is not the default; otherwise 0. */
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
