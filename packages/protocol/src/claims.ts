/** The JWT that an API key is exchanged for: what it says and how it is checked (SPEC.md, "Tokens"). */

/** Who issues tokens. */
export const ISSUER = 'static-api'
/** Who tokens are for. */
export const AUDIENCE = 'static-relay'
/** The one signature algorithm (Ed25519); verifiers pin it. */
export const TOKEN_ALGORITHM = 'EdDSA'
/** How long a token is good for. */
export const TOKEN_LIFETIME_SECONDS = 3600

/** Plan tiers, smallest first. */
export const PLANS = ['free', 'dev', 'team', 'enterprise'] as const
export type Plan = (typeof PLANS)[number]

/** Test and live things are kept apart everywhere. */
export const MODES = ['live', 'test'] as const
export type Mode = (typeof MODES)[number]

/** The claims of a token. */
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
  /** The agent id (hex) that alone may use the token, when it was asked for. */
  readonly cnf?: string
}
