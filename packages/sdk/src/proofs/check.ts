/**
 * The check of a proof (SPEC.md, 7.2): a pure function of its bytes, of where it was shown, of this agent's roots with
 * their keys, and of the time. Nothing is fetched.
 */
import { compactVerify, importJWK } from 'jose'
import { ALGORITHMS, type Claimed, readClaims } from './claims.ts'
import { contradictedId, usableKeys } from './key-state.ts'
import { type IssuerKey, type KeySet, revocationOf, thumbprintOf } from './keys.ts'
import { shownClaim } from './names.ts'
import { decodeProof, isCountersigned, type ProofContext } from './proof.ts'
import { coversRepository, longestLife, type Root } from './roots.ts'
import { isRevoked, type KnownRoot, timeOf } from './standing.ts'
import type { OtherProof, Verdict } from './verdict.ts'

export interface Checked {
  readonly verdict: Verdict
  /** The root that a key was looked for in vain: its issuer may have a new one. */
  readonly unknownKey?: Root
  /** For a repository of GitHub: the ids that belong to its names from now on. */
  readonly ids?: Readonly<Record<string, string>>
}

/** By how much the clocks of issuers and of this machine may differ, in seconds. */
const SKEW = 60
/**
 * An issuer publishes a key within this time from the first proof with it: keys that are later by so much, and still do
 * not have it, show that the issuer does not know it.
 */
const PUBLISHING_MS = 3_600_000
/** The verdict about a token lapses after this. */
const TOKEN_VERDICT_MS = 24 * 3_600_000

/** Imported keys, while their set is in use. */
const imported = new WeakMap<IssuerKey, Map<string, ReturnType<typeof importJWK>>>()

/**
 * Checks a proof of the member that the context names. `unknownSince`: since when the key of what it shows is unknown, as
 * the last verdict says.
 */
export async function checkProof(
  bytes: Uint8Array,
  context: ProofContext,
  roots: readonly KnownRoot[],
  now: number,
  unknownSince: number = now,
): Promise<Checked> {
  const proof = decodeProof(bytes)
  if (proof === undefined) return { verdict: invalid('it is not a proof of version 1 with at most 4,096 bytes') }
  if (!isCountersigned(proof, context)) return { verdict: invalid('this member did not sign it for this place') }
  const claimed = readClaims(proof, context)
  if (typeof claimed === 'string') return { verdict: invalid(claimed) }
  const fitting = roots.filter(({ root }) => isAbout(root, claimed))
  let best: Checked = { verdict: other('unchecked', claimed, 'no root') }
  for (const known of fitting) {
    const checked = await checkWith(known, { claimed, jwt: proof.jwt, unknownSince }, now) // oxlint-disable-line eslint/no-await-in-loop -- the first that decides
    if (checked.verdict.state === 'checked') return checked
    best = checked
  }
  return best
}

/** What is checked with each root. */
interface Shown {
  readonly claimed: Claimed
  readonly jwt: string
  readonly unknownSince: number
}

async function checkWith(
  { root, state }: KnownRoot,
  { claimed, jwt, unknownSince }: Shown,
  given: number,
): Promise<Checked> {
  const now = timeOf({ root, state }, given)
  const keys = usableKeys(state, now)
  if (typeof keys === 'string') return { verdict: other('unchecked', claimed, keys) }
  const key = keyFor(keys, claimed)
  if (key === undefined) {
    // A clock that was set back must not make it wait.
    const since = Math.min(unknownSince, now)
    const isKnownNow = (state.currentAt ?? 0) - since >= PUBLISHING_MS
    const verdict = other(isKnownNow ? 'invalid' : 'unchecked', claimed, 'its key is not among those of its issuer')
    return { verdict: { ...verdict, unknownSince: since }, unknownKey: root }
  }
  if (!(await isSignedBy(key, jwt, claimed.algorithm)))
    return { verdict: invalid('its issuer did not sign it', claimed) }
  const { issuedAt, expiresAt, notBefore, statementId } = claimed
  if (expiresAt - issuedAt > longestLife(root)) return { verdict: invalid('it is valid for too long', claimed) }
  const revocation = statementId === undefined ? undefined : revocationOf(statementId)
  if (isRevoked(keys, revocation, issuedAt)) return { verdict: invalid('its issuer has revoked it', claimed) }
  const seconds = now / 1000
  if (Math.max(issuedAt, notBefore) > seconds + SKEW) {
    return { verdict: other('unchecked', claimed, 'by the clock of this machine it was made in the future') }
  }
  if (expiresAt <= seconds - SKEW) return { verdict: other('lapsed', claimed, 'it has expired') }
  const ids = claimed.claims === undefined ? undefined : idsOf(claimed.name, claimed.claims)
  const moved = ids && contradictedId(state, ids)
  if (moved !== undefined) return { verdict: invalid(`${moved} is not the one that this name belonged to`, claimed) }
  const { kind, name, subject, claims } = claimed
  return {
    verdict: {
      state: 'checked',
      kind,
      name,
      subject,
      until: kind === 'domain' ? expiresAt * 1000 : now + TOKEN_VERDICT_MS,
      facts: {
        root: root.text,
        key: thumbprintOf(key),
        issuedAt,
        ...(revocation !== undefined && { revocation }),
        ...(claims && { claims }),
      },
    },
    ...(ids && { ids }),
  }
}

function isAbout(root: Root, { kind, name }: Claimed): boolean {
  if (root.kind !== kind) return false
  return kind === 'github' ? coversRepository(root, name) : root.name === name
}

/** Addresses and keys in the header of the JWT are never read. */
function keyFor({ keys }: KeySet, { keyId, algorithm }: Claimed): IssuerKey | undefined {
  const { kty, crv } = ALGORITHMS[algorithm] ?? {}
  const fitting = keys.filter(
    (key) => key.kty === kty && (crv === undefined || key.crv === crv) && (key.alg ?? algorithm) === algorithm,
  )
  if (keyId !== undefined) return fitting.find(({ kid }) => kid === keyId)
  return fitting.length === 1 ? fitting[0] : undefined
}

async function isSignedBy(key: IssuerKey, jwt: string, algorithm: string): Promise<boolean> {
  try {
    const ofKey = imported.get(key) ?? new Map<string, ReturnType<typeof importJWK>>()
    imported.set(key, ofKey)
    const loading = ofKey.get(algorithm) ?? importJWK({ ...key }, algorithm)
    ofKey.set(algorithm, loading)
    await compactVerify(jwt, await loading, { algorithms: [algorithm] })
    return true
  } catch {
    // A wrong signature, or a key that is too short or no point of its curve.
    return false
  }
}

function idsOf(repository: string, claims: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { repository_owner_id: owner = '', repository_id: id = '' } = claims
  return { [repository.split('/')[0] ?? '']: owner, [repository]: id }
}

function invalid(reason: string, claimed?: Claimed): OtherProof {
  return { state: 'invalid', reason, ...(claimed && { claimed: shownClaim(claimed.name) }) }
}

function other(state: OtherProof['state'], { name }: Claimed, reason: string): OtherProof {
  return { state, reason, claimed: shownClaim(name) }
}
