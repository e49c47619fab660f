/**
 * How sessions open (SPEC.md, "Sessions"): a challenge that is good once, for 30 s and on its stream; an answer signed by
 * the agent's key; a JWT, or a guest. The same exchange gives a token for unary calls and brings a new JWT into a session.
 */
import {
  message,
  NONCE_BYTES,
  outsideRange,
  PUBLIC_KEY_BYTES,
  REVISION,
  sessionBytes,
  type SessionPurpose,
  signedBytes,
  StaticError,
  toHex,
  type TokenClaims,
  TRAFFIC_PROFILES,
  type TrafficProfileName,
  type TrafficRange,
} from '@static/protocol'
import {
  type GetChallengeRequest,
  GetChallengeResponseSchema,
  type OpenSessionRequest,
  Purpose,
  type RefreshSessionRequest,
  TrafficProfile,
} from '@static/protocol/relay'
import type { Account, Deployment, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'
import type { Effects } from './effects.ts'
import type { CoreCrypto, Outcome } from './io.ts'
import type { Body } from './server-messages.ts'
import { wrong } from './request-fields.ts'
import type { Caller } from './session-token.ts'
import type { Challenge, Stream } from './stream.ts'

/** Who the relay is, to agents. */
export interface Identity {
  /** Must be the name that TLS verified. */
  readonly name: string
  /** Whether agents without a JWT may open sessions. */
  readonly guests: boolean
  readonly traffic: TrafficRange
}

/** The profiles by their numbers on the wire. */
export const TRAFFIC: Readonly<Record<number, TrafficProfileName>> = {
  [TrafficProfile.STANDARD]: 'standard',
  [TrafficProfile.PRIVATE]: 'private',
  [TrafficProfile.STRICT]: 'strict',
  [TrafficProfile.OFF]: 'off',
}
const NO_CHALLENGE = 'The challenge was not given here, was answered before, or is too old.'
const BAD_SIGNATURE = 'The signature does not fit the challenge and the key.'
/** Nonces that were answered and are not too old yet; beyond them nobody opens a session. */
const MAX_ANSWERED = 500_000
/** Of a nonce: when it was given, the agent's revision, random bytes; a MAC follows. */
const NONCE_BODY_BYTES = 16
/** As fast as the highest level of `private`. */
const MAX_CELLS_PER_SECOND = 64

/** Checks openings; what comes of them is the caller's business. */
export class Opening {
  readonly #effects: Effects
  readonly #crypto: CoreCrypto
  readonly #settings: Settings
  readonly #identity: Identity
  readonly #deployment: Deployment
  readonly #answered = new Map<string, Time>()

  constructor(effects: Effects, crypto: CoreCrypto, settings: Settings, identity: Identity, deployment: Deployment) {
    this.#effects = effects
    this.#crypto = crypto
    this.#settings = settings
    this.#identity = identity
    this.#deployment = deployment
  }

  /**
   * Gives a challenge: for this stream, or to a unary call (also one that a proxy passes on) for the next call. That one's
   * nonce tells by itself when it was given, so that nobody pushes out the challenges of others by asking for many.
   */
  challenge(stream: Stream, { revision }: GetChallengeRequest): Body {
    if (revision < 1) throw wrong('revision is at least 1')
    if (stream.proxyRevision !== undefined && stream.proxyRevision < revision) {
      throw StaticError.of(
        'connection_error',
        'The proxy is older than the agent: it would lose what it does not know.',
      )
    }
    const bound = stream.kind === 'session' && stream.proxyRevision === undefined
    const nonce = bound ? this.#crypto.random(NONCE_BYTES) : this.#nonce(revision)
    if (stream.kind === 'session') stream.challenge = { nonce, revision, at: this.#effects.monotonic }
    return {
      case: 'getChallenge',
      value: message(GetChallengeResponseSchema, {
        nonce,
        relayName: this.#identity.name,
        relayId: this.#deployment.relayId,
        revision: REVISION,
      }),
    }
  }

  /** Checks who opens a session. */
  open(stream: Stream, value: OpenSessionRequest, then: (outcome: Outcome<Caller>) => void): void {
    const unary = value.purpose === Purpose.UNARY
    if (!unary && value.purpose !== Purpose.SESSION) throw wrong('purpose is SESSION or UNARY')
    const traffic = TRAFFIC[value.trafficProfile]
    if (!traffic) throw wrong(`traffic_profile is one of ${TRAFFIC_PROFILES.join(', ')}`)
    const cellsPerSecond = value.cellsPerSecond
    if (cellsPerSecond > 0 && traffic !== 'strict') throw wrong('cells_per_second belongs to the strict profile')
    if (cellsPerSecond > MAX_CELLS_PER_SECOND) throw wrong(`cells_per_second is at most ${MAX_CELLS_PER_SECOND}`)
    if (value.publicKey.length !== PUBLIC_KEY_BYTES) throw wrong('public_key has 32 bytes')
    if (value.agentNonce.length !== NONCE_BYTES) throw wrong('agent_nonce has 32 bytes')
    const challenge = unary ? this.#takeUnary(stream, value.relayNonce) : this.#take(stream, value.relayNonce)
    if (value.revision !== Math.min(challenge.revision, REVISION)) {
      throw wrong('revision is the lower one of the two ends')
    }
    const { publicKey, jwt } = value
    const purpose = unary ? 'unary' : 'session'
    this.#check(publicKey, value, { purpose, revision: value.revision, traffic, cellsPerSecond })
    this.#answer(challenge)
    // Unary calls are not shaped, whatever they say.
    const outside = outsideRange(unary ? 'off' : traffic, this.#identity.traffic)
    if (outside !== undefined) throw StaticError.of('not_allowed', outside)
    const agent = toHex(this.#crypto.hash(publicKey))
    // Copied: the bytes are a view of the whole request.
    const caller = { agent, publicKey: new Uint8Array(publicKey), nonce: challenge.nonce, traffic, cellsPerSecond }
    if (jwt === '') {
      if (!this.#identity.guests) throw StaticError.of('api_key_required', 'This relay takes no guests.')
      return then({ ok: true, value: { ...caller, account: undefined, expiresAt: undefined } })
    }
    this.#verify(jwt, agent, (outcome) => {
      then(outcome.ok ? { ok: true, value: { ...caller, ...outcome.value } } : outcome)
    })
  }

  /** Checks a new JWT for a session that is open: subject and mode stay. */
  refresh(
    stream: Stream,
    caller: Caller,
    value: RefreshSessionRequest,
    then: (outcome: Outcome<{ account: Account; expiresAt: Time }>) => void,
  ): void {
    const { account } = caller
    if (!account) throw StaticError.of('not_allowed', "A guest's session cannot become an account's: open a new one.")
    if (value.agentNonce.length !== NONCE_BYTES) throw wrong('agent_nonce has 32 bytes')
    const challenge =
      stream.kind === 'session' && stream.session
        ? this.#take(stream, value.relayNonce)
        : this.#takeUnary(stream, value.relayNonce)
    const revision = Math.min(challenge.revision, REVISION)
    const { traffic, cellsPerSecond } = caller
    this.#check(caller.publicKey, value, { purpose: 'refresh', revision, traffic, cellsPerSecond })
    this.#answer(challenge)
    this.#verify(value.jwt, caller.agent, (outcome) => {
      if (outcome.ok && (outcome.value.account.id !== account.id || outcome.value.account.mode !== account.mode)) {
        const error = StaticError.of('auth_failed', 'A refresh keeps the account and the mode of the session.')
        return then({ ok: false, error })
      }
      then(outcome)
    })
  }

  #take(stream: Stream, nonce: Uint8Array): Challenge {
    const { challenge } = stream
    stream.challenge = undefined
    const { now, monotonic } = this.#effects
    const isOld = challenge && monotonic - challenge.at > this.#settings.session.challengeMs
    if (!challenge || isOld || !this.#crypto.equal(challenge.nonce, nonce)) {
      throw StaticError.of('auth_failed', NO_CHALLENGE)
    }
    // Among the answered ones, it is as old as one that a call would answer now.
    return { ...challenge, at: now }
  }

  #takeUnary(stream: Stream, nonce: Uint8Array): Challenge {
    stream.challenge = undefined
    const body = nonce.subarray(0, NONCE_BODY_BYTES)
    if (nonce.length !== NONCE_BYTES || !this.#crypto.equal(this.#nonceMac(body), nonce.subarray(NONCE_BODY_BYTES))) {
      throw StaticError.of('auth_failed', NO_CHALLENGE)
    }
    const view = new DataView(body.buffer, body.byteOffset)
    // Copied: the bytes are a view of the whole request.
    const at = view.getUint16(0) * 2 ** 32 + view.getUint32(2)
    return this.#fresh({ nonce: new Uint8Array(nonce), revision: view.getUint16(6), at })
  }

  #nonce(revision: number): Uint8Array {
    const nonce = new Uint8Array(NONCE_BYTES)
    nonce.set(this.#crypto.random(NONCE_BODY_BYTES))
    const view = new DataView(nonce.buffer)
    view.setUint16(0, Math.floor(this.#effects.now / 2 ** 32))
    view.setUint32(2, this.#effects.now % 2 ** 32)
    view.setUint16(6, Math.min(revision, 0xffff))
    nonce.set(this.#nonceMac(nonce.subarray(0, NONCE_BODY_BYTES)), NONCE_BODY_BYTES)
    return nonce
  }

  #nonceMac(body: Uint8Array): Uint8Array {
    const bytes = signedBytes('static-relay/1 challenge', [body])
    return this.#crypto.mac(this.#deployment.tokenKey, bytes).subarray(0, NONCE_BYTES - NONCE_BODY_BYTES)
  }

  /** A challenge that is neither old nor answered. By the wall clock: another node, or this one before a restart, gave it. */
  #fresh(challenge: Challenge): Challenge {
    const old = this.#effects.now - challenge.at > this.#settings.session.challengeMs
    if (old || this.#answered.has(toHex(challenge.nonce))) throw StaticError.of('auth_failed', NO_CHALLENGE)
    return challenge
  }

  /** It is answered, by a good signature: not again. */
  #answer({ nonce, at }: Challenge): void {
    const { challengeMs } = this.#settings.session
    for (const [oldest, given] of this.#answered) {
      if (this.#effects.now - given <= challengeMs) break
      this.#answered.delete(oldest)
    }
    if (this.#answered.size >= MAX_ANSWERED) throw StaticError.of('unavailable', 'Too many sessions are being opened.')
    this.#answered.set(toHex(nonce), at)
  }

  #check(
    publicKey: Uint8Array,
    answer: {
      readonly relayNonce: Uint8Array
      readonly agentNonce: Uint8Array
      readonly jwt: string
      readonly signature: Uint8Array
    },
    said: {
      readonly purpose: SessionPurpose
      readonly revision: number
      readonly traffic: TrafficProfileName
      readonly cellsPerSecond: number
    },
  ): void {
    const bytes = sessionBytes({
      ...said,
      relayName: this.#identity.name,
      relayId: this.#deployment.relayId,
      relayNonce: answer.relayNonce,
      agentNonce: answer.agentNonce,
      jwtHash: answer.jwt === '' ? undefined : this.#crypto.hash(new TextEncoder().encode(answer.jwt)),
    })
    if (!this.#crypto.verify(publicKey, bytes, answer.signature)) throw StaticError.of('auth_failed', BAD_SIGNATURE)
  }

  #verify(jwt: string, agent: string, then: (outcome: Outcome<{ account: Account; expiresAt: Time }>) => void): void {
    this.#effects.verify(jwt, (outcome) => {
      if (!outcome.ok) return then(outcome)
      const claims: TokenClaims = outcome.value
      if (claims.cnf !== undefined && claims.cnf !== agent) {
        return then({ ok: false, error: StaticError.of('auth_failed', 'This token belongs to another agent.') })
      }
      then({
        ok: true,
        value: { account: { id: claims.sub, mode: claims.mode }, expiresAt: claims.exp * 1000 },
      })
    })
  }
}
