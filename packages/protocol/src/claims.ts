/** The JWT that an API key is exchanged for: its claims and how it is verified (SPEC.md, "Tokens"). */

/** The `iss` claim. */
export const ISSUER = 'static-api'
/** The `aud` claim. */
export const AUDIENCE = 'static-relay'
/** The only signature algorithm (Ed25519); verifiers pin it. */
export const TOKEN_ALGORITHM = 'EdDSA'
export const TOKEN_LIFETIME_SECONDS = 3600

/** Plan tiers, smallest first. */
export const PLANS = ['free', 'dev', 'team', 'enterprise'] as const
export type Plan = (typeof PLANS)[number]

/** Test and live resources are kept apart everywhere. */
export const MODES = ['live', 'test'] as const
export type Mode = (typeof MODES)[number]

export interface TokenClaims {
  /** Account id. */
  readonly sub: string
  readonly plan: Plan
  readonly iss: typeof ISSUER
  readonly aud: typeof AUDIENCE
  /** Seconds since 1970. */
  readonly exp: number
  readonly iat: number
  readonly jti: string
  readonly mode: Mode
  /** The id of the key that it was exchanged for. Relays report how much each key uses. */
  readonly key?: string
  /** The bytes that the relay keeps for the account: in one channel, and in total. Missing: the relay's default. */
  readonly channel_bytes?: number
  readonly account_bytes?: number
  /** The bytes that the files in all its channels may take. Missing: the relay's default. */
  readonly file_bytes?: number
  /** The id (hex) of the only agent that may use the token, if the token is bound to one. */
  readonly cnf?: string
}
