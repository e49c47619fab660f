/** What the relay needs from the API: token verification and quota. */
import type { Lease, TokenClaims } from '@static/protocol'
import type { Account } from './store.ts'

/** Verifies a JWT. Rejects with `auth_failed` if it is invalid. */
export type TokenVerifier = (jwt: string) => Promise<TokenClaims>

/** Lends quota. */
export interface QuotaSource {
  lease(account: Account, wanted: number): Promise<Lease>
  settle(lease: string, spent: number, final: boolean): Promise<unknown>
}
