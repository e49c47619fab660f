/** Types of the HTTP API's bodies, shared by the API, the command line and the console (SPEC.md, "HTTP API"). */
import type { Mode, Plan } from './claims.ts'
import type { ErrorCode } from './errors/table.ts'

/** The cookie of a sign-in session. `__Host-` binds it to one origin over TLS. */
export const SESSION_COOKIE = '__Host-static_session'
/** The cookie of a browser in which someone has signed in. It grants attempts at the password, but no access. */
export const DEVICE_COOKIE = '__Host-static_device'
/** Required on requests with the cookie: another site's page cannot set this header. */
export const CSRF_HEADER = 'x-static-csrf'

/** The status of an account. A closed account stays as a row without personal data. */
export const ACCOUNT_STATUSES = ['active', 'suspended', 'closed'] as const
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number]

/** An account, as shown to its owner. */
export interface Account {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly plan: Plan
  readonly status: AccountStatus
  readonly created_at: string
}

/** A new key with its secret, which is shown only when the key is created. */
export interface CreatedKey {
  readonly id: string
  readonly key_prefix: string
  readonly name: string
  readonly mode: Mode
  readonly created_at: string
  readonly key: string
}

/** A key in a list, without its secret. */
export interface ListedKey {
  readonly id: string
  readonly key_prefix: string
  readonly name: string
  readonly mode: Mode
  readonly last_used_at: string | null
  readonly created_at: string
  /** Messages that agents sent with tokens of this key, this month. */
  readonly messages: number
  /** Exchanges of this key for tokens, this month. */
  readonly token_exchanges: number
}

/** A sign-in session in a list. */
export interface ListedSession {
  readonly id: string
  /** Whether it is the session of this request. */
  readonly current: boolean
  readonly created_at: string
  /** Accurate to about ten minutes. */
  readonly last_used_at: string
  readonly expires_at: string
  /** Browser and system, if the browser reported them. */
  readonly client: string | null
  /** The address where it began, if the operator records addresses. */
  readonly address: string | null
}

/** The response to a sign-up. */
export interface SignedUp extends Account {
  readonly message: string
  readonly api_key: { readonly id: string; readonly key_prefix: string; readonly name: string; readonly key: string }
}

/** Where a server says which relay belongs to it. */
export const ANNOUNCEMENT_PATH = '/.well-known/static-server.json'

/** Who may sign up: everyone, holders of an invite from the operator, or no one. */
export const SIGNUP_MODES = ['open', 'invite', 'closed'] as const
export type SignupMode = (typeof SIGNUP_MODES)[number]

/** What a server announces to clients that know only its API. */
export interface ServerAnnouncement {
  /** Endpoints of the relay, the preferred one first. */
  readonly relay: readonly string[]
  /** The name in the relay's certificate, if the endpoints are IP addresses. */
  readonly relay_name?: string
  readonly signup: SignupMode
}

/** The kinds of events in the audit log. */
export const AUDIT_EVENTS = [
  'account_created',
  'account_closed',
  'account_suspended',
  'account_resumed',
  'plan_changed',
  'sign_in',
  'sign_in_failed',
  'session_ended',
  'password_changed',
  'password_link_created',
  'password_set',
  'key_created',
  'key_revoked',
  'signup_invite_created',
  'signup_invite_revoked',
  'channel_deletion_requested',
  'channel_deleted',
] as const
export type AuditEvent = (typeof AUDIT_EVENTS)[number]

/** The cause of an event: the account's user, the operator, or the service itself. */
export const AUDIT_ACTORS = ['user', 'admin', 'system'] as const
export type AuditActor = (typeof AUDIT_ACTORS)[number]

/** An event in the audit log. */
export interface AuditedEvent {
  readonly id: string
  readonly at: string
  /** Frequent events within an hour share one entry: their number, and the time of the last. */
  readonly count: number
  readonly last_at: string
  readonly actor: AuditActor
  /** Null for events about sign-up invites, which only the operator sees. */
  readonly account_id: string | null
  readonly event: AuditEvent
  /** The key that was created or revoked. */
  readonly key_id: string | null
  /** The sign-up invite that was created or revoked, or with which the account was created. */
  readonly invite_id: string | null
  /** The new plan. */
  readonly plan: Plan | null
  /** The name of the channel that is deleted. */
  readonly channel: string | null
  /** The client's address, if the operator records addresses. */
  readonly address: string | null
}

/** A page of the audit log, newest first. */
export interface AuditPage {
  readonly events: readonly AuditedEvent[]
  /** The `before` of the next page; null on the last one. */
  readonly next: string | null
}

/** The response to a token exchange. */
export interface IssuedToken {
  readonly token: string
  readonly token_type: 'Bearer'
  readonly expires_in: number
  readonly expires_at: string
}

/** The usage in this period. `null` means unlimited. */
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

/** A share of the quota, leased to one relay node. `granted` 0 means that nothing is left right now. */
export interface Lease {
  readonly id: string | null
  readonly granted: number
  /** Messages that other leases still hold; while this is above 0, a retry may succeed. */
  readonly outstanding: number
  readonly expires_at: string
  /** The time until then, from before the answer was sent. The holder counts it from the time of its request. */
  readonly expires_in_ms: number
  readonly period_end: string
}

/** Limits of a relay's report on one account. */
export const OVERVIEW_LIMITS = { channels: 200, membersPerChannel: 20, members: 500, agents: 200 } as const

/** A member of a channel, as the relay knows it. */
export interface OverviewMember {
  /** The agent id, in hexadecimal. */
  readonly agent: string
  /** Log entries that it has not fetched. */
  readonly waiting: number
}

/** A channel that an account owns, as the relay knows it. */
export interface OverviewChannel {
  readonly id: string
  readonly name: string
  readonly mode: Mode
  /** The owner's agent id. */
  readonly owner: string
  readonly created_at: string
  /** When the relay accepted the last entry of its log, or created it. */
  readonly last_at: string
  /** The number of members. */
  readonly members: number
  /** The size of the log that the relay keeps until all members have fetched it; 0 if they have. */
  readonly waiting_bytes: number
  /** The members furthest behind, worst first. */
  readonly behind: readonly OverviewMember[]
}

/** An agent that has used a key of the account since the relay started. */
export interface OverviewAgent {
  readonly id: string
  readonly mode: Mode
  /** The identity it chose; null if the relay does not know it. */
  readonly name: string | null
  readonly connected: boolean
  readonly last_seen_at: string
}

/** One relay's information about an account: names and numbers, no content. */
export interface RelayOverview {
  readonly relay_id: string
  /** The relay's server name. */
  readonly relay: string
  /** When the relay started. Agents not connected since then are not listed. */
  readonly since: string
  /** The number of channels; `channels` may have fewer. */
  readonly total_channels: number
  readonly channels: readonly OverviewChannel[]
  readonly agents: readonly OverviewAgent[]
}

/** The channels and agents of an account, by relay. */
export interface Overview {
  /** Empty until a relay has reported. */
  readonly relays: readonly (RelayOverview & { readonly reported_at: string })[]
}

/** A channel that a relay is to delete. */
export interface ChannelDeletion {
  readonly id: string
  /** No channel that was created later is deleted. */
  readonly requested_at: string
  readonly account_id: string
  readonly mode: Mode
  readonly name: string
  /** Null if only the name is known. */
  readonly channel_id: string | null
}

/** A deletion that waits for the relay. */
export interface RequestedDeletion extends Omit<ChannelDeletion, 'account_id' | 'requested_at'> {
  /** When it is dropped if no relay has such a channel. */
  readonly expires_at: string
}

/** The response of an API that is ready. */
export interface Readiness {
  readonly status: 'ok'
  /** The state of the relay, if the API monitors one. */
  readonly relay?: 'ok' | 'unavailable'
}

/** An error response of the HTTP API (RFC 9457). */
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
