/**
 * What an agent has found out about a proof. Verdicts are plain JSON, so that they can be stored: a token is dead after
 * minutes, and what is known of it must survive a restart.
 */

/** The kinds of names that a proof can give. */
export type NameKind = 'domain' | 'github' | 'oidc' | 'spiffe'

/** What an issuer has signed. */
export interface SignedName {
  readonly kind: NameKind
  /** Made by us: `acme.example`, `acme/app`, an issuer's address or a SPIFFE trust domain. */
  readonly name: string
  /** What the issuer calls the agent: a name, a ref or environment of GitHub, a SPIFFE ID. */
  readonly subject: string
  readonly facts: ProofFacts
}

/** An issuer that this agent trusts vouched for the key. */
export interface CheckedProof extends SignedName {
  readonly state: 'checked'
  /** When the verdict lapses, in milliseconds. */
  readonly until: number
}

/** What is needed to match rules later and to void the verdict: see `Checker.standing`. */
export interface ProofFacts {
  /** The text of the root that it was checked with. */
  readonly root: string
  /** The thumbprint of the issuer's key. */
  readonly key: string
  /** By the issuer's clock, in seconds. */
  readonly issuedAt: number
  /** The entry that would revoke it; statements of domains only. */
  readonly revocation?: string
  /** Claims of a token of GitHub that rules match. */
  readonly claims?: Readonly<Record<string, string>>
}

/**
 * `lapsed`: was valid, or would have been earlier. `unchecked`: not decided, because this agent has no root or no keys
 * for it. `invalid`: nothing that an honest agent would show. Only `checked` satisfies a rule, and only `invalid` is a
 * reason to remove a member.
 */
export interface OtherProof {
  readonly state: 'lapsed' | 'unchecked' | 'invalid'
  readonly reason: string
  /** The issuer that it claims, shortened to what is safe to show; never a name to act on. */
  readonly claimed?: string
  /** What the issuer has signed, although that does not count now: a proof of this subject could count. */
  readonly signed?: SignedName
  /** Since when the issuer, whose keys are known, is not known to have the key that signed what the member shows. */
  readonly unknownSince?: number
}

export type Verdict = CheckedProof | OtherProof

/** Whether two agents were proven to be the same in the eyes of their issuer, so that one may replace the other. */
export function isSameSubject(one: Verdict | undefined, other: Verdict | undefined): boolean {
  if (one?.state !== 'checked' || other?.state !== 'checked') return false
  return one.kind === other.kind && one.name === other.name && one.subject === other.subject
}

const NAMES: Readonly<Record<NameKind, string>> = { domain: '', github: 'GitHub Actions ', oidc: '', spiffe: '' }

/** The name that people and models read: `GitHub Actions acme/app refs/heads/main`, `acme.example deployer`. */
export function provenName({ kind, name, subject }: Pick<SignedName, 'kind' | 'name' | 'subject'>): string {
  // A SPIFFE ID contains its trust domain.
  return kind === 'spiffe' ? subject : `${NAMES[kind]}${name} ${subject}`
}
