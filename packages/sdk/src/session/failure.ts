/** Why a dial or a session ended, and its consequences for the next dial. */
import { AuthError, ERRORS, OLDEST_REVISION, StaticError, toHex } from '@static/protocol'
import { CloseReason, type Error as Refusal, type SessionClosing } from '@static/protocol/relay'
import { refusalError } from '../ports/refusal.ts'
import type { ExpectedRelay } from './io.ts'

/** The consequences of a failure for the next dial. */
export interface FailureRule {
  /** Minimum delay in milliseconds, regardless of the backoff. */
  readonly floorMs: number
  /** Extra random delay of up to this many milliseconds, because many agents may have received the same message. */
  readonly jitterMs: number
  /** Whether another transport may work better. */
  readonly otherWay: boolean
  /** Whether another node of the relay may work better. */
  readonly otherNode: boolean
  /** Whether retrying soon is pointless. If so, the application is notified, and a first session fails at once. */
  readonly final: boolean
}

const MINUTE_MS = 60_000
const SOON: FailureRule = { floorMs: 0, jitterMs: 0, otherWay: false, otherNode: true, final: false }

export type FailureKind =
  | 'unreachable'
  | 'unusable'
  | 'busy'
  | 'full'
  | 'shutdown'
  | 'expired'
  | 'replaced'
  | 'unverified'
  | 'auth'
  | 'certificate'
  | 'untrusted'
  | 'outdated'

/** The rule for each kind of failure. */
export const FAILURES: Readonly<Record<FailureKind, FailureRule>> = {
  /** No answer, a late one, or one that is not in this protocol. */
  unreachable: { ...SOON, otherWay: true },
  /** This process cannot use the transport at all, so each node would fail alike. */
  unusable: { ...SOON, otherWay: true, otherNode: false },
  /** The relay answered but does not accept the session now, or has ended it. */
  busy: SOON,
  /** The relay has no room for this connection, but may have room for one over another transport. */
  full: { ...SOON, jitterMs: 1000, otherWay: true },
  /** The relay is shutting down, so all its agents reconnect at once. */
  shutdown: { ...SOON, jitterMs: 1000 },
  /** The token has expired. A new one is enough. */
  expired: { ...SOON, otherNode: false },
  /** A newer session of this agent took over. Reconnecting at once would only displace that one. */
  replaced: { ...SOON, floorMs: 30_000, otherNode: false },
  /**
   * The relay cannot verify a new token, or the signature. The API accepts the key, so the usual cause is a wrong
   * clock.
   */
  unverified: { ...SOON, floorMs: 1000, jitterMs: 1000, final: true },
  /** The account, the key or the guest is not accepted. If only one node refuses, that node is at fault. */
  auth: { ...SOON, floorMs: MINUTE_MS, jitterMs: 1000, final: true },
  /** The certificate is not trusted or has expired. The relay's operator may replace it at any moment. */
  certificate: { ...SOON, floorMs: 9000, jitterMs: 3000, final: true },
  /** The peer is not the expected relay, according to its name or pinned id. */
  untrusted: { ...SOON, floorMs: MINUTE_MS, jitterMs: 1000, final: true },
  /** Agent and relay have no revision in common. Only an update of one of them helps. */
  outdated: { ...SOON, floorMs: MINUTE_MS, jitterMs: 1000, final: true },
}

/** The rule for an untrusted or outdated node when others are left: they may be the relay, or updated. */
export const PASSED_NODE: FailureRule = SOON

/** Why a dial or a session ended. */
export interface Failure {
  readonly kind: FailureKind
  readonly error: StaticError
  /** When to retry, as requested by the relay. */
  readonly retryAfterMs?: number | undefined
  /** Another port to dial, as requested by the relay. */
  readonly redirectPort?: number | undefined
}

/** Two programs with one key are a mistake, and this message is the only sign of it that users see. */
const REPLACED =
  "Another session with this agent's key replaced this one. Two programs seem to use the same agent: stop one of them."

/** The relay could not be reached or did not answer. */
export function unreachable(message: string, cause?: StaticError): Failure {
  return { kind: 'unreachable', error: StaticError.of('connection_error', message, cause && { cause }) }
}

/** The relay violated the protocol. */
export function brokenProtocol(what: string, cause?: unknown): Failure {
  const details = cause === undefined ? {} : { cause }
  return {
    kind: 'unreachable',
    error: StaticError.of('connection_error', `The relay violated the protocol: ${what}.`, details),
  }
}

/** The relay runs an earlier version. */
export function oldRelay(revision: number): Failure {
  const text = `The relay uses protocol revision ${revision}, and this agent needs ${OLDEST_REVISION} or later. Update the relay.`
  return { kind: 'outdated', error: StaticError.of('version_mismatch', text) }
}

/** The peer is not the expected relay. */
export function untrusted(message: string, cause?: StaticError): Failure {
  return { kind: 'untrusted', error: StaticError.of('connection_error', message, cause && { cause }) }
}

/** The answering relay is not the known or accepted one. Only the application can accept it. */
export function relayChanged({ serverName, known, accepted }: ExpectedRelay, answering: Uint8Array): Failure {
  const now = toHex(answering)
  const details = { relay: { name: serverName, known: known ? toHex(known) : null, answering: now } }
  const message = known
    ? `The relay at ${serverName} has changed: this agent knows relay ${toHex(known)}, and relay ${now} answers. ${ERRORS.relay_changed.remedy}`
    : `The relay at ${serverName} is not the expected one: relay ${now} answers, not ${accepted ? toHex(accepted) : ''}. ` +
      'Ask for the right id, or for a new invite link.'
  return { kind: 'untrusted', error: StaticError.of('relay_changed', message, details) }
}

/** The relay refused to open the session. */
export function refusedOpening(refusal: Refusal): Failure {
  const error = refusalError(refusal)
  const { retryAfterMs } = refusal
  if (error.code === 'auth_failed') return { kind: 'unverified', error, retryAfterMs }
  if (error instanceof AuthError) return { kind: 'auth', error, retryAfterMs }
  if (error.code === 'version_mismatch') return { kind: 'outdated', error, retryAfterMs }
  const redirectPort = error.code === 'unavailable' ? refusal.redirectPort : undefined
  return { kind: 'busy', error, retryAfterMs, redirectPort }
}

/** The relay closed the session; `open` says whether it had been opened. */
export function closedByRelay({ reason, error: refusal }: SessionClosing, open: boolean): Failure {
  const error = refusal ? refusalError(refusal) : StaticError.of('unavailable', 'The relay closed the session.')
  const retryAfterMs = refusal?.retryAfterMs
  switch (reason) {
    case CloseReason.REPLACED:
      return { kind: 'replaced', error: StaticError.of('transport_error', REPLACED, { cause: error }), retryAfterMs }
    case CloseReason.EXPIRED:
      return open ? { kind: 'expired', error, retryAfterMs } : unreachable(error.message, error)
    case CloseReason.NOT_ALLOWED:
      return { kind: 'auth', error, retryAfterMs }
    case CloseReason.SHUTDOWN:
      if (!open && refusal) return { ...refusedOpening(refusal), kind: 'shutdown' }
      return { kind: 'shutdown', error, retryAfterMs }
    case CloseReason.FULL:
      return refusal ? { ...refusedOpening(refusal), kind: 'full' } : { kind: 'full', error }
    // `slow`, `malformed`, and any reason a newer relay may send.
    default:
      return { kind: error instanceof AuthError ? 'auth' : 'busy', error, retryAfterMs }
  }
}
