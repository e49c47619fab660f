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
  /** The roots that a key was looked for in vain: their issuer may have a new one. */
  readonly unknownKeys: readonly Root[]
  /** For a repository of GitHub: the ids that belong to its names from now on, for each of these roots. */
  readonly pinned?: { readonly ids: Readonly<Record<string, string>>; readonly roots: readonly Root[] }
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
  const decided = (verdict: Verdict): Checked => ({ verdict, unknownKeys: [] })
  const proof = decodeProof(bytes)
  if (proof === undefined) return decided(invalid('it is not a proof of version 1 with at most 4,096 bytes'))
  if (!isCountersigned(proof, context)) return decided(invalid('this member did not sign it for this place'))
  const claimed = readClaims(proof, context)
  if (typeof claimed === 'string') return decided(invalid(claimed))
  const fitting = roots.filter(({ root }) => isAbout(root, claimed))
  if (fitting.length === 0) return decided(other('unchecked', claimed, 'no root'))
  const checks = fitting.map((known) => checkWith(known, { claimed, jwt: proof.jwt, unknownSince }, now))
  const found = await Promise.all(checks)
  const [verdict = invalid('no root decides')] = found.toSorted((one, another) => rankOf(one) - rankOf(another))
  const unknownKeys = fitting.flatMap(({ root }, at) => (isUnknown(found[at]) ? [root] : []))
  const ids = claimed.claims === undefined ? undefined : idsOf(claimed.name, claimed.claims)
  if (ids === undefined || !hasSigned(verdict)) return { verdict, unknownKeys }
  // Whichever root decides: a name that one root knows as another's is no name for the others.
  const moved = contradictedId(fitting, ids)
  if (moved !== undefined) return decided(invalid(`${moved} is not the one that this name belonged to`, claimed))
  return { verdict, unknownKeys, pinned: { ids, roots: fitting.map(({ root }) => root) } }
}

/** The lowest decides. With the keys of another root, or with other keys, it may be `checked`: that is not `invalid`. */
function rankOf(verdict: Verdict): number {
  if (verdict.state === 'checked') return 0
  if (hasSigned(verdict)) return 1
  return verdict.state === 'unchecked' ? 2 : 3
}

/** Whether its issuer has signed it, so that what it says is not made up. */
function hasSigned(verdict: Verdict): boolean {
  return verdict.state === 'checked' || verdict.signed !== undefined
}

function isUnknown(verdict: Verdict | undefined): boolean {
  return verdict !== undefined && verdict.state !== 'checked' && verdict.unknownSince !== undefined
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
): Promise<Verdict> {
  const now = timeOf({ root, state }, given)
  const keys = usableKeys(state, now)
  if (typeof keys === 'string') return other('unchecked', claimed, keys)
  const key = keyFor(keys, claimed)
  const isSigned = key !== undefined && (await isSignedBy(key, jwt, claimed.algorithm))
  // A key without a name, or one of a set that waits for a person, may be a different one.
  const mayBeOther = claimed.keyId === undefined || state.waiting !== undefined
  if (key === undefined || (!isSigned && mayBeOther)) {
    // A clock that was set back must not make it wait.
    const since = Math.min(unknownSince, now)
    const isKnownNow = (state.currentAt ?? 0) - since >= PUBLISHING_MS
    const verdict = other(isKnownNow ? 'invalid' : 'unchecked', claimed, 'its key is not among those of its issuer')
    return { ...verdict, unknownSince: since }
  }
  if (!isSigned) return invalid('its issuer did not sign it', claimed)
  const { issuedAt, expiresAt, notBefore, statementId } = claimed
  if (expiresAt - issuedAt > longestLife(root)) return invalid('it is valid for too long', claimed)
  const revocation = statementId === undefined ? undefined : revocationOf(statementId)
  if (isRevoked(keys, revocation, issuedAt)) return invalid('its issuer has revoked it', claimed)
  const { kind, name, subject, claims } = claimed
  const signed = {
    kind,
    name,
    subject,
    facts: {
      root: root.text,
      key: thumbprintOf(key),
      issuedAt,
      ...(revocation !== undefined && { revocation }),
      ...(claims && { claims }),
    },
  }
  const seconds = now / 1000
  if (Math.max(issuedAt, notBefore) > seconds + SKEW) {
    return { ...other('unchecked', claimed, 'by the clock of this machine it was made in the future'), signed }
  }
  if (expiresAt <= seconds - SKEW) return { ...other('lapsed', claimed, 'it has expired'), signed }
  return { state: 'checked', ...signed, until: kind === 'domain' ? expiresAt * 1000 : now + TOKEN_VERDICT_MS }
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
