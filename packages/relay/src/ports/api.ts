/** What the relay needs from the API: token verification and quota. */
import type { ChannelDeletion, Lease, RelayOverview, TokenClaims } from '@static/protocol'
import type { Account } from './outcome.ts'

/** Verifies a JWT. Rejects with `auth_failed` if it is invalid. */
export type TokenVerifier = (jwt: string) => Promise<TokenClaims>

/** Leases quota, and knows which accounts may use the relay. */
export interface QuotaSource {
  lease(account: Account, wanted: number): Promise<Lease>
  /** `keys`: how much each API key has spent. All numbers are totals of the lease so far. */
  settle(lease: string, spent: number, final: boolean, keys: Readonly<Record<string, number>>): Promise<unknown>
  /** Which of the accounts, at most `MAX_CHECKED_ACCOUNTS`, may not use the relay. */
  blocked(accounts: readonly string[]): Promise<BlockedAnswer>
}

/** Why an account may not use the relay. */
export type BlockReason = 'account_suspended' | 'account_unknown'

/** Accounts that may not use the relay. */
export interface BlockedAnswer {
  readonly suspended: readonly string[]
  /** Accounts that were closed or do not exist. */
  readonly unknown: readonly string[]
}

/** Receives what people see of their channels in the console. Only viewed accounts are reported. */
export interface OverviewSink {
  /** The accounts being viewed whose last report from this relay is old; a bounded number. */
  watched(relayId: string): Promise<readonly string[]>
  report(account: string, overview: RelayOverview): Promise<unknown>
}

/** Knows the channels that people want deleted without an agent. */
export interface DeletionSource {
  /** Those that this relay has not answered; a bounded number. */
  deletions(relayId: string): Promise<readonly ChannelDeletion[]>
  /** `deleted`: false if this relay has no such channel of that account. */
  reportDeletion(id: string, relayId: string, deleted: boolean): Promise<unknown>
}

/** Whether the relay can use its API. */
export interface ApiState {
  /** What is wrong, for people; undefined if nothing is. */
  readonly problem: string | undefined
  /** How far the API's clock is ahead of ours, as far as known. */
  readonly clockOffsetMs: number | undefined
}

/** Maximum number of accounts in one request to the API. */
export const MAX_CHECKED_ACCOUNTS = 256
