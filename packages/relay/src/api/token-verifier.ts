/** Verifies the JWTs of agents by the API's public keys, which are fetched when a key is new and kept meanwhile. */
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose'
import { AUDIENCE, ISSUER, MODES, StaticError, TOKEN_ALGORITHM, type TokenClaims } from '@static/protocol'
import type { Time, TokenVerifier } from '../ports.ts'

const MAX_AGE_MS = 600_000
/** A token with an unknown key makes the relay look for new keys, but not for every such token. */
const COOLDOWN_MS = 5000
const MAX_JWT_LENGTH = 4096
/** The API's clock may be ahead. */
const CLOCK_TOLERANCE_SECONDS = 5

/**
 * Makes a verifier. It rejects with `auth_failed` for a token that is not good, and with `unavailable` when the keys
 * cannot be had.
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
    return payload as unknown as TokenClaims
  }

  return async (jwt) => {
    if (jwt.length > MAX_JWT_LENGTH) throw StaticError.of('auth_failed', 'The token is not valid.')
    if (!keys) await fetchNow().catch(unreachable)
    // Old keys serve until new ones are there: tokens live for an hour, and nobody waits for an API that hangs.
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
  throw StaticError.of('unavailable', 'The keys that tokens are checked with cannot be fetched now.', {
    cause,
    retryAfter: 1,
  })
}

function refused(cause: unknown): StaticError {
  if (cause instanceof errors.JWTExpired) return StaticError.of('auth_failed', 'The token has run out.', { cause })
  return StaticError.of('auth_failed', 'The token is not valid.', { cause })
}
