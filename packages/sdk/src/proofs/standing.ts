/** What a checked proof is worth later: its issuer may withdraw the key or the statement (SPEC.md, 7.2). */
import { type KeyState, usableKeys } from './key-state.ts'
import { type KeySet, thumbprintOf } from './keys.ts'
import { shownClaim } from './names.ts'
import type { Root } from './roots.ts'
import type { CheckedProof, OtherProof, Verdict } from './verdict.ts'

/** A root with what is known of its keys. */
export interface KnownRoot {
  readonly root: Root
  readonly state: KeyState
}

/** The verdict on a proof that was checked before. */
export function standingOf(checked: CheckedProof, roots: readonly KnownRoot[], now: number): Verdict {
  const { kind, name, subject, until, facts } = checked
  const signed = { kind, name, subject, facts }
  const other = (state: OtherProof['state'], reason: string): OtherProof => {
    return { state, reason, claimed: shownClaim(name), signed }
  }
  const known = roots.find(({ root }) => root.text === facts.root && root.kind === kind)
  if (known === undefined) return other('unchecked', 'no root')
  const time = timeOf(known, now)
  const keys = usableKeys(known.state, time)
  if (typeof keys === 'string') return other('lapsed', keys)
  if (isRevoked(keys, facts.revocation, facts.issuedAt)) return other('invalid', 'its issuer has revoked it')
  if (!keys.keys.some((key) => thumbprintOf(key) === facts.key)) {
    return other('lapsed', 'its issuer has withdrawn the key that signed it')
  }
  return until > time ? checked : other('lapsed', 'it was not renewed in time')
}

/** The time for a root: a clock that was set back does not revive what has ended. */
export function timeOf({ state }: KnownRoot, now: number): number {
  return Math.max(now, state.seenAt)
}

/** Whether a statement, or all that were issued then, are void. */
export function isRevoked({ notBefore, revoked }: KeySet, revocation: string | undefined, issuedAt: number): boolean {
  return issuedAt < notBefore || (revocation !== undefined && revoked.includes(revocation))
}
