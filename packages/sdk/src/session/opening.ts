/** How an agent answers a challenge (SPEC.md, "Sessions"): which checks come first, and what it signs. */
import {
  message,
  NONCE_BYTES,
  OLDEST_REVISION,
  RELAY_ID_BYTES,
  REVISION,
  sessionBytes,
  type SessionPurpose,
} from '@static/protocol'
import {
  type GetChallengeResponse,
  type OpenSessionRequest,
  OpenSessionRequestSchema,
  Purpose,
  type RefreshSessionRequest,
  RefreshSessionRequestSchema,
  TrafficProfile,
} from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import { brokenProtocol, type Failure, oldRelay, relayChanged, untrusted } from './failure.ts'
import type { CoreOptions, ExpectedRelay } from './io.ts'

/** The agent's description of itself in its answer. */
export type OpeningOptions = Pick<CoreOptions, 'signer' | 'traffic' | 'cellsPerSecond'>

const PROFILES = {
  standard: TrafficProfile.STANDARD,
  private: TrafficProfile.PRIVATE,
  strict: TrafficProfile.STRICT,
  off: TrafficProfile.OFF,
} as const

const encoder = new TextEncoder()

/**
 * Checks a challenge; returns why it must not be answered. A relay in the middle could forward another relay's
 * challenge, but has a certificate for its own name only.
 */
export function challengeFault(challenge: GetChallengeResponse, expected: ExpectedRelay): Failure | undefined {
  const { nonce, relayName, relayId, revision } = challenge
  const { serverName, known, accepted } = expected
  if (nonce.length !== NONCE_BYTES || relayId.length !== RELAY_ID_BYTES) {
    return brokenProtocol('its challenge is incomplete')
  }
  if (revision < OLDEST_REVISION) return oldRelay(revision)
  if (relayName !== serverName) {
    return untrusted(`The relay calls itself ${JSON.stringify(relayName)}, but its certificate is for ${serverName}.`)
  }
  const trusted = [known, accepted].filter((id) => id !== undefined)
  if (trusted.length === 0 || trusted.some((id) => same(id, relayId))) return undefined
  return relayChanged(expected, relayId)
}

/** The request that opens a session, as a guest if there is no token. */
export function openSessionRequest(
  opening: OpeningOptions,
  challenge: GetChallengeResponse,
  jwt: string,
): OpenSessionRequest {
  const { signer, traffic, cellsPerSecond } = opening
  const agentNonce = signer.random(NONCE_BYTES)
  return message(OpenSessionRequestSchema, {
    purpose: Purpose.SESSION,
    revision: Math.min(REVISION, challenge.revision),
    publicKey: signer.publicKey,
    relayNonce: challenge.nonce,
    agentNonce,
    jwt,
    trafficProfile: PROFILES[traffic],
    cellsPerSecond,
    signature: sign(opening, 'session', challenge, agentNonce, jwt),
  })
}

/** The request that brings a new token into an open session. */
export function refreshSessionRequest(
  opening: OpeningOptions,
  challenge: GetChallengeResponse,
  jwt: string,
): RefreshSessionRequest {
  const agentNonce = opening.signer.random(NONCE_BYTES)
  return message(RefreshSessionRequestSchema, {
    relayNonce: challenge.nonce,
    agentNonce,
    jwt,
    signature: sign(opening, 'refresh', challenge, agentNonce, jwt),
  })
}

function sign(
  { signer, traffic, cellsPerSecond }: OpeningOptions,
  purpose: SessionPurpose,
  challenge: GetChallengeResponse,
  agentNonce: Uint8Array,
  jwt: string,
): Uint8Array {
  return signer.sign(
    sessionBytes({
      purpose,
      revision: Math.min(REVISION, challenge.revision),
      relayName: challenge.relayName,
      relayId: challenge.relayId,
      relayNonce: challenge.nonce,
      agentNonce,
      jwtHash: jwt === '' ? undefined : signer.hash(encoder.encode(jwt)),
      traffic,
      cellsPerSecond,
    }),
  )
}
