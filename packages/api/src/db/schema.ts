/**
 * The tables, for kysely. Times are milliseconds and ids are text, the same in SQLite and PostgreSQL. `checksum` covers
 * the columns that decide something (`checksums.ts`).
 */
import type { AccountStatus, AuditActor, AuditEvent, Mode, Plan } from '@static/protocol'
import type { Kysely } from 'kysely'

export interface Schema {
  accounts: {
    id: string
    email: string
    /** The address in lower case, unique; null once the account is closed. */
    email_key: string | null
    name: string | null
    password_hash: string
    plan: Plan
    status: AccountStatus
    created_at: number
    /** Incremented to lock the row: the only way to do so that works in both engines. */
    revision: number
    checksum: number
  }
  api_keys: {
    id: string
    account_id: string
    prefix: string
    name: string
    mode: Mode
    hash: string
    created_at: number
    last_used_at: number | null
    revoked_at: number | null
    /** Token exchanges and messages in the last month that had any, and that month's start. */
    exchanges: number
    messages: number
    counted_period: number
    checksum: number
  }
  sessions: {
    /** Identifies the session in lists; it gives no access. */
    id: string
    id_hash: string
    account_id: string
    created_at: number
    seen_at: number
    expires_at: number
    /** Browser and system, if the browser reported them. */
    client: string | null
    address: string | null
    checksum: number
  }
  /** Browsers in which someone has signed in. */
  devices: {
    id_hash: string
    account_id: string
    expires_at: number
    checksum: number
  }
  /** One-time tokens; `account_id` is null for a sign-up invite. */
  links: {
    selector: string
    secret_hash: string
    account_id: string | null
    created_at: number
    expires_at: number
    checksum: number
  }
  audit: {
    /** Sorts by time, and within a transaction by the order of its entries. */
    id: string
    account_id: string | null
    at: number
    last_at: number
    count: number
    actor: AuditActor
    event: AuditEvent
    key_id: string | null
    invite_id: string | null
    plan: Plan | null
    channel: string | null
    address: string | null
  }
  /** Channels that relays are to delete. */
  channel_deletions: {
    id: string
    account_id: string
    mode: Mode
    name: string
    channel_id: string | null
    expires_at: number
    /** The ids of relays that have no such channel, each between spaces. */
    missing_at: string
    checksum: number
  }
  /** Facts about the deployment, by name. */
  deployment: { name: string; value: string }
  signing_keys: {
    generation: number
    kid: string
    sealed: string
    created_at: number
    active_from: number
    checksum: number
  }
  usage_periods: {
    account_id: string
    mode: Mode
    period: number
    used: number
    reserved: number
    token_exchanges: number
    checksum: number
  }
  usage_days: { account_id: string; mode: Mode; day: string; messages: number }
  leases: {
    id: string
    account_id: string
    mode: Mode
    period: number
    amount: number
    spent: number
    state: 'open' | 'expired' | 'closed'
    expires_at: number
    /** The part of `spent` that each key has spent, as JSON. */
    by_key: string
    checksum: number
  }
  /** The number of attempts; `subject` is an opaque name. Stored separately by each engine (`rate-windows.ts`). */
  rate_windows: { policy: string; subject: string; count: number; ends: number }
  idempotency: {
    scope: string
    key: string
    fingerprint: string
    resource_id: string
    created_at: number
    checksum: number
  }
}

export type Db = Kysely<Schema>
