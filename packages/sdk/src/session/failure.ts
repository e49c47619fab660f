/** Why a dial or a session ended, and what that means for the next one. */
import { AuthError, StaticError } from '@static/protocol'
import { CloseReason, type Error as Refusal, type SessionClosing } from '@static/protocol/relay'
import { refusalError } from './refusal.ts'

/** What a failure means for the next dial. */
export interface FailureRule {
  /** Not before so many milliseconds, whatever the back-off says. */
  readonly floorMs: number
  /** Spread over so many milliseconds more: many agents may have been told the same. */
  readonly jitterMs: number
  /** Another way may be better. */
  readonly otherWay: boolean
  /** Trying again soon will not help: the application is told, and a first session is given up at once. */
  readonly final: boolean
}

const MINUTE_MS = 60_000
const SOON: FailureRule = { floorMs: 0, jitterMs: 0, otherWay: false, final: false }

export type FailureKind = 'unreachable' | 'busy' | 'shutdown' | 'expired' | 'replaced' | 'auth' | 'untrusted'

/** What each kind means. */
export const FAILURES: Readonly<Record<FailureKind, FailureRule>> = {
  /** Nobody answered, or not in time, or not in our language. */
  unreachable: { ...SOON, otherWay: true },
  /** The relay is there and does not take the session now, or has let it go. */
  busy: SOON,
  /** The relay stops, and everybody dials again. */
  shutdown: { ...SOON, jitterMs: 1000 },
  /** The token has run out: a new one will do. */
  expired: SOON,
  /** A newer session of this agent: dialling at once would only throw that one out. */
  replaced: { ...SOON, floorMs: 30_000 },
  /** The account, the key or the guest is not let in. */
  auth: { ...SOON, floorMs: MINUTE_MS, jitterMs: 1000, final: true },
  /** Somebody who is not the relay: by certificate, name or pinned id. */
  untrusted: { ...SOON, floorMs: MINUTE_MS, jitterMs: 1000, final: true },
}

/** Why a dial or a session ended. */
export interface Failure {
  readonly kind: FailureKind
  readonly error: StaticError
  /** The relay's word on when to come again. */
  readonly retryAfterMs?: number | undefined
  /** The relay's word on which port to dial instead. */
  readonly redirectPort?: number | undefined
}

/** Two programs with one key are a mistake of somebody's, and this sentence is all that they see of it. */
const REPLACED =
  "Another session with this agent's key has taken the place of this one: two programs seem to use the same agent."

/** Nobody there, or nobody who answers. */
export function unreachable(message: string, cause?: StaticError): Failure {
  return { kind: 'unreachable', error: StaticError.of('connection_error', message, cause && { cause }) }
}

/** The relay sent what it must not. */
export function brokenProtocol(what: string, cause?: unknown): Failure {
  const details = cause === undefined ? {} : { cause }
  return {
    kind: 'unreachable',
    error: StaticError.of('connection_error', `The relay broke the protocol: ${what}.`, details),
  }
}

/** Not the relay that is meant. */
export function untrusted(message: string, cause?: StaticError): Failure {
  return { kind: 'untrusted', error: StaticError.of('connection_error', message, cause && { cause }) }
}

/** The relay's answer to an opening that it does not take. */
export function refusedOpening(refusal: Refusal): Failure {
  const error = refusalError(refusal)
  const { retryAfterMs } = refusal
  if (error instanceof AuthError) return { kind: 'auth', error, retryAfterMs }
  const redirectPort = error.code === 'unavailable' ? refusal.redirectPort : undefined
  return { kind: 'busy', error, retryAfterMs, redirectPort }
}

/** The relay's last word on a session; `open` is whether it had opened. */
export function closedByRelay({ reason, error: refusal }: SessionClosing, open: boolean): Failure {
  const error = refusal ? refusalError(refusal) : StaticError.of('unavailable', 'The relay ended the session.')
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
    // Slow, malformed, and what a newer relay may say.
    default:
      return { kind: error instanceof AuthError ? 'auth' : 'busy', error, retryAfterMs }
  }
}
