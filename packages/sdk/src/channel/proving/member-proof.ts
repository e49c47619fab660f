/** What an application sees of a proof. */
import { type NameKind, provenName, type Verdict } from '../../proofs/verdict.ts'

/**
 * The one who runs a member, as far as this agent has checked it. `checked`: an issuer that this agent trusts has vouched
 * for the member's key. Otherwise `reason` says why not, and `claimed` names the issuer that the proof claims, which
 * nothing verifies.
 */
export type MemberProof =
  | {
      readonly state: 'checked'
      readonly kind: NameKind
      /** Made by this agent: `acme.example`, `acme/app` for GitHub, the issuer's address or a SPIFFE trust domain. */
      readonly name: string
      /** What the issuer calls the agent: its name in the domain, a ref or environment of GitHub, a SPIFFE ID. */
      readonly subject: string
      /** When this lapses, unless the member shows its proof again. */
      readonly until: Date
    }
  | {
      /**
       * `lapsed`: it was valid. `unchecked`: this agent trusts no such issuer, or does not have its keys now. `invalid`:
       * nothing that an honest agent would show.
       */
      readonly state: 'lapsed' | 'unchecked' | 'invalid'
      readonly reason: string
      readonly claimed?: string
    }

export function memberProofOf(verdict: Verdict): MemberProof {
  if (verdict.state !== 'checked') {
    const { state, reason, claimed } = verdict
    return { state, reason, ...(claimed !== undefined && { claimed }) }
  }
  const { state, kind, name, subject, until } = verdict
  return { state, kind, name, subject, until: new Date(until) }
}

/**
 * The one who runs a member, in words for people and language models: `GitHub Actions acme/app refs/heads/main`, or for a
 * proof that is not checked `claims evil.example (unchecked: no root)`. Text of others is in it only as far as it is
 * safe.
 */
export function shownProof(proof: MemberProof): string {
  if (proof.state === 'checked') return provenName(proof)
  const { state, claimed, reason } = proof
  return `${claimed === undefined ? 'shows a proof' : `claims ${claimed}`} (${state}: ${reason})`
}
