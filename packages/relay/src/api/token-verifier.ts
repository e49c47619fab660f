/** Verifies agents' JWTs with the API's public keys, which are cached and refetched for an unknown key id. */
import type { JSONWebKeySet } from 'jose'
import * as errors from 'jose/errors'
import { createLocalJWKSet } from 'jose/jwks/local'
import { jwtVerify } from 'jose/jwt/verify'
import { AUDIENCE, ISSUER, MODES, StaticError, TOKEN_ALGORITHM, type TokenClaims } from '@static/protocol'
import type { Time, TokenVerifier } from '../ports.ts'

const MAX_AGE_MS = 600_000
/** Minimum time between fetches caused by tokens with an unknown key. */
const COOLDOWN_MS = 5000
const MAX_JWT_LENGTH = 4096
/** The id of an API key. */
const KEY_ID = /^[0-9a-f-]{36}$/
const NO_KEY = '0'.repeat(36)
/** Allows for an API clock that is ahead. */
const CLOCK_TOLERANCE_SECONDS = 5

/**
 * Creates a verifier. It rejects with `auth_failed` for an invalid token, and with `unavailable` if the keys cannot be
 * fetched.
 */
export function makeVerifier(fetchKeys: () => Promise<JSONWebKeySet>, now: () => Time): TokenVerifier {
  let keys: ReturnType<typeof createLocalJWKSet> | undefined
  let fetchedAt = 0
  let triedAt = -Infinity
  let fetching: Promise<void> | undefined
  const fetchNow = (): Promise<void> => {
    triedAt = now()
    return (fetching ??= fetchKeys()
      .then((set) => {
        keys = createLocalJWKSet(set)
        fetchedAt = now()
      })
      .finally(() => (fetching = undefined)))
  }

  const check = async (jwt: string): Promise<TokenClaims> => {
    if (!keys) throw new errors.JWKSNoMatchingKey()
    const { payload } = await jwtVerify(jwt, keys, {
      issuer: ISSUER,
      audience: AUDIENCE,
      algorithms: [TOKEN_ALGORITHM],
      requiredClaims: ['sub', 'exp', 'iat', 'jti', 'mode', 'plan'],
      currentDate: new Date(now()),
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
    })
    if (!MODES.some((mode) => mode === payload['mode']) || typeof payload.sub !== 'string') {
      throw new errors.JWTInvalid('claims')
    }
    if (payload['cnf'] !== undefined && typeof payload['cnf'] !== 'string') throw new errors.JWTInvalid('cnf')
    const { key = NO_KEY } = payload
    if (typeof key !== 'string' || !KEY_ID.test(key)) throw new errors.JWTInvalid('key')
    for (const name of ['channel_bytes', 'account_bytes', 'file_bytes'] as const) {
      const bytes = payload[name] ?? 1
      if (!Number.isSafeInteger(bytes) || Number(bytes) < 1) throw new errors.JWTInvalid(name)
    }
    return payload as unknown as TokenClaims
  }

  return async (jwt) => {
    if (jwt.length > MAX_JWT_LENGTH) throw StaticError.of('auth_failed', 'The token is invalid.')
    if (!keys) await fetchNow().catch(unreachable)
    // Use old keys until new ones arrive: tokens live for an hour, and no agent should wait for a hanging API.
    else if (now() - Math.max(fetchedAt, triedAt) > MAX_AGE_MS) fetchNow().catch(() => {})
    try {
      return await check(jwt)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || now() - triedAt < COOLDOWN_MS) throw refused(error)
    }
    await fetchNow().catch(unreachable)
    return check(jwt).catch((error: unknown) => {
      throw refused(error)
    })
  }
}

function unreachable(cause: unknown): never {
  throw StaticError.of('unavailable', 'The keys to verify tokens cannot be fetched from the API.', {
    cause,
    retryAfter: 1,
  })
}

function refused(cause: unknown): StaticError {
  if (cause instanceof errors.JWTExpired) return StaticError.of('auth_failed', 'The token has expired.', { cause })
  return StaticError.of('auth_failed', 'The token is invalid.', { cause })
}
