/** What the relay asks of the API: whether a token is good, and quota. */
import type { Lease, TokenClaims } from '@static/protocol'
import type { Account } from './store.ts'

/** Verifies a JWT. Rejects with `auth_failed` for one that is not good. */
export type TokenVerifier = (jwt: string) => Promise<TokenClaims>

/** Who lends quota. */
export interface QuotaSource {
  lease(account: Account, wanted: number): Promise<Lease>
  settle(lease: string, spent: number, final: boolean): Promise<unknown>
}
