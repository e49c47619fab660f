/** Shapes of the HTTP API's bodies, shared by the API, the command line and the console (SPEC.md, "HTTP API"). */
import type { Mode, Plan } from './claims.ts'
import type { ErrorCode } from './errors/table.ts'

/** The cookie of a sign-in session. `__Host-` ties it to one origin over TLS. */
export const SESSION_COOKIE = '__Host-static_session'
/** A request that uses the cookie must carry this header: another site's page cannot set it. */
export const CSRF_HEADER = 'x-static-csrf'

/** Whether an account works. A closed account stays as a row without personal data. */
export const ACCOUNT_STATUSES = ['active', 'suspended', 'closed'] as const
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number]

/** An account as its holder sees it. */
export interface Account {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly plan: Plan
  readonly status: AccountStatus
  readonly created_at: string
}

/** A key as it is shown once, when it is made. */
export interface CreatedKey {
  readonly id: string
  readonly key_prefix: string
  readonly name: string
  readonly mode: Mode
  readonly created_at: string
  readonly key: string
}

/** A key as it is listed. */
export interface ListedKey {
  readonly id: string
  readonly key_prefix: string
  readonly name: string
  readonly mode: Mode
  readonly last_used_at: string | null
  readonly created_at: string
}

/** The answer to a sign-up. */
export interface SignedUp extends Account {
  readonly message: string
  readonly api_key: { readonly id: string; readonly key_prefix: string; readonly name: string; readonly key: string }
}

/** The answer to a token exchange. */
export interface IssuedToken {
  readonly token: string
  readonly token_type: 'Bearer'
  readonly expires_in: number
  readonly expires_at: string
}

/** What was used of the plan in this period. `null` means unlimited. */
export interface Usage {
  readonly account_id: string
  readonly plan: Plan
  readonly mode: Mode
  readonly period_start: string
  readonly period_end: string
  readonly resets_at: string
  readonly messages: {
    readonly used: number
    readonly reserved: number
    readonly limit: number | null
    readonly remaining: number | null
  }
  readonly token_exchanges: number
  readonly daily: readonly { readonly date: string; readonly messages: number }[]
}

/** A share of the quota, lent to one relay node. `granted` 0 means that nothing is left now. */
export interface Lease {
  readonly id: string | null
  readonly granted: number
  /** Messages that other leases still hold; while it is above 0, asking again may succeed. */
  readonly outstanding: number
  readonly expires_at: string
  readonly period_end: string
}

/** The answer of an API that can work. */
export interface Readiness {
  readonly status: 'ok'
  /** How the relay stands, where the API knows of one. */
  readonly relay?: 'ok' | 'unavailable'
}

/** An error as the HTTP API sends it (RFC 9457). */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: ErrorCode
  readonly request_id: string
  readonly errors?: readonly { readonly field: string; readonly message: string }[]
  readonly resource_id?: string
}
