/**
 * Opens sessions (SPEC.md, "Sessions"): a challenge, valid once, for 30 s and on its stream; a response signed with the
 * agent's key; a JWT, or none for a guest. The same exchange issues a token for unary calls and refreshes a session's
 * JWT.
 */
import {
  message,
  NONCE_BYTES,
  OLDEST_REVISION,
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
import type { Account, Deployment, Time } from '../../ports.ts'
import type { Settings } from '../../settings.ts'
import { Allotments } from '../accounts/allotments.ts'
import type { Effects } from '../effects.ts'
import type { CoreCrypto, Outcome } from '../io.ts'
import type { Body } from '../server-messages.ts'
import { checkLength, wrong } from '../requests/request-fields.ts'
import type { Caller } from './session-token.ts'
import type { Challenge, Stream } from './stream.ts'

/** What identifies the relay to agents. */
export interface Identity {
  /** Must be the host name in the relay's TLS certificate. */
  readonly name: string
  /** Whether agents without a JWT may open sessions. */
  readonly guests: boolean
  readonly traffic: TrafficRange
  /** The TCP port of gRPC; 0 until it is known. */
  readonly grpcPort: () => number
  /** The TCP port of files, and the address in its place if there is one; undefined if there are no files. */
  readonly files?: (() => { readonly port: number; readonly url: string } | undefined) | undefined
}

/** The profiles by their numbers on the wire. */
export const TRAFFIC: Readonly<Record<number, TrafficProfileName>> = {
  [TrafficProfile.STANDARD]: 'standard',
  [TrafficProfile.PRIVATE]: 'private',
  [TrafficProfile.STRICT]: 'strict',
  [TrafficProfile.OFF]: 'off',
}
const NO_CHALLENGE = 'The challenge is unknown, already used, or expired. Request a new one.'
const BAD_SIGNATURE = 'The signature does not match the challenge and the key.'
/** The body of a nonce: its time, the agent's revision, random bytes. A MAC follows. */
const NONCE_BODY_BYTES = 16
/** The same as the highest level of `private`. */
const MAX_CELLS_PER_SECOND = 64

/** The claims of a valid JWT. */
interface Verified {
  readonly account: Account
  /** The id of the API key, if the JWT names it. */
  readonly key: string | undefined
  readonly expiresAt: Time
}

/** Checks requests that open or refresh a session; the caller acts on the result. */
export class Opening {
  readonly #effects: Effects
  readonly #crypto: CoreCrypto
  readonly #settings: Settings
  readonly #identity: Identity
  readonly #deployment: Deployment
  readonly #allotments: Allotments

  constructor(effects: Effects, crypto: CoreCrypto, settings: Settings, identity: Identity, deployment: Deployment) {
    this.#effects = effects
    this.#crypto = crypto
    this.#settings = settings
    this.#identity = identity
    this.#deployment = deployment
    this.#allotments = new Allotments(effects)
  }

  /**
   * Issues a challenge: bound to this stream or, for a unary call (even one forwarded by a proxy), to the next call.
   * The nonce of a unary challenge contains its own time, so nothing is stored that a flood of requests could evict.
   */
  challenge(stream: Stream, { revision }: GetChallengeRequest): Body {
    if (revision < OLDEST_REVISION) throw tooOld('agent', revision)
    if (stream.proxyRevision !== undefined && stream.proxyRevision < revision) {
      throw StaticError.of(
        'version_mismatch',
        `The proxy supports revision ${stream.proxyRevision} and the agent uses ${revision}: the proxy drops new ` +
          'fields. Update the proxy.',
      )
    }
    const bound = stream.kind === 'session' && stream.proxyRevision === undefined
    const nonce = bound ? this.#crypto.random(NONCE_BYTES) : this.#nonce(revision)
    if (stream.kind === 'session') {
      stream.challenge = { nonce, revision, at: this.#effects.monotonic, ...(bound ? {} : { unbound: true }) }
    }
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

  /** Authenticates an agent that opens a session. */
  open(stream: Stream, value: OpenSessionRequest, then: (outcome: Outcome<Caller>) => void): void {
    const unary = value.purpose === Purpose.UNARY
    if (!unary && value.purpose !== Purpose.SESSION)
      throw wrong(`\`purpose\` must be SESSION or UNARY, not ${value.purpose}`)
    const traffic = TRAFFIC[value.trafficProfile]
    if (!traffic) throw unknownProfile(value.trafficProfile)
    const cellsPerSecond = value.cellsPerSecond
    if (cellsPerSecond > 0 && traffic !== 'strict')
      throw wrong(`\`cells_per_second\` is only for the strict profile, not ${traffic}`)
    if (cellsPerSecond > MAX_CELLS_PER_SECOND) throw tooFast(cellsPerSecond)
    checkLength(value.publicKey, PUBLIC_KEY_BYTES, 'public_key')
    checkLength(value.agentNonce, NONCE_BYTES, 'agent_nonce')
    const challenge = unary ? this.#takeUnary(stream, value.relayNonce) : this.#take(stream, value.relayNonce)
    const agreed = Math.min(challenge.revision, REVISION)
    if (value.revision !== agreed) {
      throw wrong(`\`revision\` must be ${agreed}, the lower revision of agent and relay, not ${value.revision}`)
    }
    const { publicKey, jwt } = value
    const purpose = unary ? 'unary' : 'session'
    this.#check(publicKey, value, { purpose, revision: value.revision, traffic, cellsPerSecond })
    // Unary calls are never shaped, whatever profile they name.
    const outside = outsideRange(unary ? 'off' : traffic, this.#identity.traffic)
    if (outside !== undefined) throw StaticError.of('not_allowed', outside)
    const agent = toHex(this.#crypto.hash(publicKey))
    // Copied: the bytes are a view of the whole request.
    const caller = { agent, publicKey: new Uint8Array(publicKey), nonce: challenge.nonce, traffic, cellsPerSecond }
    if (jwt === '' && !this.#identity.guests)
      throw StaticError.of('api_key_required', 'This relay does not accept guests. Connect with an API key.')
    this.#once(challenge, then, () => {
      if (jwt === '') return then({ ok: true, value: { ...caller, account: undefined, expiresAt: undefined } })
      this.#verify(jwt, agent, (outcome) => {
        then(outcome.ok ? { ok: true, value: { ...caller, ...outcome.value } } : outcome)
      })
    })
  }

  /** Checks a new JWT for an open session: subject and mode must not change. */
  refresh(
    stream: Stream,
    caller: Caller,
    value: RefreshSessionRequest,
    then: (outcome: Outcome<Verified>) => void,
  ): void {
    const { account } = caller
    if (!account)
      throw StaticError.of('not_allowed', 'The session of a guest cannot be refreshed with a JWT. Open a new session.')
    checkLength(value.agentNonce, NONCE_BYTES, 'agent_nonce')
    const challenge =
      stream.kind === 'session' && stream.session
        ? this.#take(stream, value.relayNonce)
        : this.#takeUnary(stream, value.relayNonce)
    const revision = Math.min(challenge.revision, REVISION)
    const { traffic, cellsPerSecond } = caller
    this.#check(caller.publicKey, value, { purpose: 'refresh', revision, traffic, cellsPerSecond })
    this.#once(challenge, then, () => {
      this.#verify(value.jwt, caller.agent, (outcome) => {
        if (outcome.ok && (outcome.value.account.id !== account.id || outcome.value.account.mode !== account.mode)) {
          const error = StaticError.of(
            'auth_failed',
            'The new JWT has another account or mode than the session. Open a new session.',
          )
          return then({ ok: false, error })
        }
        then(outcome)
      })
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
    if (this.#effects.now - at > this.#settings.session.challengeMs) throw StaticError.of('auth_failed', NO_CHALLENGE)
    return { nonce: new Uint8Array(nonce), revision: view.getUint16(6), at, unbound: true }
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

  /**
   * Marks a challenge as used once its signature is verified. A challenge bound to a stream was taken from the stream;
   * any other may come to any node, even after a restart, so the store remembers it by the wall clock.
   */
  #once<Value>({ nonce, at, unbound }: Challenge, then: (outcome: Outcome<Value>) => void, next: () => void): void {
    if (unbound !== true) return next()
    // Allows for small clock differences between nodes.
    const until = at + 2 * this.#settings.session.challengeMs
    this.#effects.store('useNonce', { nonce, until }, (outcome) => {
      if (!outcome.ok) return then(outcome)
      if (outcome.value.fresh) return next()
      then({ ok: false, error: StaticError.of('auth_failed', NO_CHALLENGE) })
    })
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

  #verify(jwt: string, agent: string, then: (outcome: Outcome<Verified>) => void): void {
    this.#effects.verify(jwt, (outcome) => {
      if (!outcome.ok) return then(outcome)
      const claims: TokenClaims = outcome.value
      if (claims.cnf !== undefined && claims.cnf !== agent) {
        return then({
          ok: false,
          error: StaticError.of('auth_failed', `The token is for agent ${claims.cnf}, not ${agent}.`),
        })
      }
      const account = { id: claims.sub, mode: claims.mode }
      this.#allotments.tell(account, claims)
      then({ ok: true, value: { account, key: claims.key, expiresAt: claims.exp * 1000 } })
    })
  }
}

/** The error for a peer of an earlier version. */
export function tooOld(who: 'agent' | 'proxy', revision: number): StaticError {
  const needed = `this relay needs revision ${OLDEST_REVISION} or later`
  return StaticError.of(
    'version_mismatch',
    `The ${who} uses protocol revision ${revision}, and ${needed}. Update the ${who}.`,
  )
}

function unknownProfile(profile: number): StaticError {
  return wrong(`\`traffic_profile\` must be one of ${TRAFFIC_PROFILES.join(', ')}, not ${profile}`)
}

function tooFast(cells: number): StaticError {
  return wrong(`\`cells_per_second\` must be at most ${MAX_CELLS_PER_SECOND}, not ${cells}`)
}
