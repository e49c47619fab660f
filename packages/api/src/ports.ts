/** The interfaces that the rules of the API depend on. Each store is one file in `db/`. */
import type { AccountStatus, AuditActor, AuditEvent, Mode, Plan } from '@static/protocol'

/** Milliseconds since 1970. Injected, so that tests can set the time. */
export type Clock = () => number

/** An account. A closed one keeps its row, without e-mail address, name and password. */
export interface AccountRecord {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly passwordHash: string
  readonly plan: Plan
  readonly status: AccountStatus
  readonly createdAt: number
}

/** A key, without its secret. */
export interface KeyRecord {
  readonly id: string
  readonly accountId: string
  readonly prefix: string
  readonly name: string
  readonly mode: Mode
  readonly hash: string
  readonly createdAt: number
  readonly lastUsedAt: number | null
}

/** The public part of a key, and its token exchanges and messages in the last month that had any. */
export interface ListedKeyRecord extends Omit<KeyRecord, 'accountId' | 'hash'> {
  readonly exchanges: number
  readonly messages: number
  /** The start of that month; 0 if there was none. */
  readonly countedPeriod: number
}

/** A key with everything that decides whether it is valid. */
export interface VerifiableKey {
  readonly id: string
  readonly accountId: string
  readonly mode: Mode
  readonly hash: string
  readonly lastUsedAt: number | null
  readonly revokedAt: number | null
  readonly plan: Plan
  readonly status: AccountStatus
}

/** An Idempotency-Key with its request. Stored in the same transaction as the resource that the request creates. */
export interface IdempotencyClaim {
  /** The namespace of the keys: an account id, or `sign-up`. */
  readonly scope: string
  readonly key: string
  /** Hash of the request without its password. */
  readonly fingerprint: string
  readonly now: number
}

/** The credential with which a caller authenticated. A write can check that it is still valid. */
export type Credential =
  | { readonly by: 'key'; readonly id: string }
  | { readonly by: 'session'; readonly idHash: string }
  | { readonly by: 'password'; readonly hash: string }

/** An event of an account. Stored in the same transaction as the change it reports. */
export interface AuditEntry {
  readonly accountId: string
  readonly at: number
  readonly actor: AuditActor
  readonly event: AuditEvent
  readonly keyId?: string
  readonly inviteId?: string | undefined
  readonly plan?: Plan
  /** The name of the channel that is deleted. */
  readonly channel?: string
  readonly address?: string | undefined
  /** The number of times it happened; 1 by default. */
  readonly count?: number
}

/** An entry about an account, or about a sign-up invite, which belongs to none. */
export interface OperatorEntry extends Omit<AuditEntry, 'accountId'> {
  readonly accountId: string | null
}

/** A stored entry. Frequent events of an hour share one. */
export interface AuditRecord extends Omit<OperatorEntry, 'keyId' | 'inviteId' | 'plan' | 'channel' | 'address'> {
  readonly id: string
  readonly count: number
  readonly lastAt: number
  readonly keyId: string | null
  readonly inviteId: string | null
  readonly plan: Plan | null
  readonly channel: string | null
  readonly address: string | null
}

export interface AuditStore {
  /** Adds entries, in one transaction for each account. Ignores accounts that do not exist. */
  add(entries: readonly AuditEntry[]): Promise<void>
  /** At most `limit` entries of the account, or of all, older than the entry `before`, newest first. */
  list(accountId: string | undefined, before: string | undefined, limit: number): Promise<AuditRecord[]>
}

/** The public part of a one-time token finds its row; only a hash of the secret part is stored. */
export interface OneTimeToken {
  readonly selector: string
  readonly secretHash: string
}

/** A one-time token that the operator hands out: it sets a password or creates an account. */
export interface LinkRecord extends OneTimeToken {
  /** The account whose password it sets; null for a sign-up invite. */
  readonly accountId: string | null
  readonly createdAt: number
  readonly expiresAt: number
}

export interface LinkStore {
  /** Adds a link. A link that sets a password replaces earlier ones of its account; false if that account is closed. */
  create(link: LinkRecord, entry: OperatorEntry): Promise<boolean>
  find(selector: string): Promise<LinkRecord | undefined>
  /** At most `limit` sign-up invites that can still be used at this time, the next to expire first. */
  invites(now: number, limit: number): Promise<LinkRecord[]>
  /** Deletes a sign-up invite; false if it was used or revoked, or has expired. */
  revokeInvite(selector: string, entry: OperatorEntry): Promise<boolean>
  /**
   * Uses the link up, sets the hash, ends all sign-in sessions and devices; false if the link is no longer valid, or
   * the account is not active.
   */
  setPassword(link: LinkRecord, newHash: string, entry: AuditEntry): Promise<boolean>
}

/** The rows created together with a new account. */
export interface AccountExtras {
  readonly key?: KeyRecord
  readonly claim?: IdempotencyClaim | undefined
  /** The sign-up invite to use up. */
  readonly invite?: OneTimeToken | undefined
  readonly entries: readonly AuditEntry[]
}

/** The operator's search in the list of accounts. */
export interface AccountQuery {
  /** A part of the e-mail address or of the name, or the whole id. */
  readonly text?: string | undefined
  readonly status?: AccountStatus | undefined
  /** The last account of the previous page. */
  readonly after?: string | undefined
  readonly limit: number
}

export interface AccountStore {
  /** Creates the account and its extras, or nothing. */
  create(
    account: AccountRecord,
    extras: AccountExtras,
  ): Promise<'created' | 'email_taken' | 'claimed' | 'invite_invalid'>
  byId(id: string): Promise<AccountRecord | undefined>
  /** Ignores case. */
  byEmail(email: string): Promise<AccountRecord | undefined>
  /** The status of those accounts that exist. A damaged account counts as suspended. */
  statuses(ids: readonly string[]): Promise<ReadonlyMap<string, AccountStatus>>
  /** Oldest first. */
  list(query: AccountQuery): Promise<AccountRecord[]>
  /**
   * Sets the hash, ends all sign-in sessions, devices and set-password links; false if the hash is no longer `oldHash`.
   */
  setPassword(id: string, oldHash: string, newHash: string, entry: AuditEntry): Promise<boolean>
  /**
   * Closes, revokes all keys, ends all sessions, devices and links, erases personal data; false if the account is
   * closed, or if `oldHash` is given and no longer its hash.
   */
  close(id: string, oldHash: string | undefined, entry: AuditEntry): Promise<boolean>
  /** Sets plan or status of an account that is not closed; false if there is none. */
  change(
    id: string,
    change: { readonly plan: Plan } | { readonly status: 'active' | 'suspended' },
    entry: AuditEntry,
  ): Promise<boolean>
}

export interface KeyStore {
  /**
   * Adds a key to an active account with fewer than `most` active keys, if the credential is still valid: once the
   * owner has revoked a stolen key or changed a stolen password, the thief must not be able to create another key.
   */
  create(
    key: KeyRecord,
    most: number,
    credential: Credential,
    claim: IdempotencyClaim | undefined,
    entry: AuditEntry,
  ): Promise<'created' | 'limit' | 'claimed' | 'refused'>
  byPrefix(prefix: string): Promise<VerifiableKey | undefined>
  /** The active keys, newest first, ties by id descending. */
  list(accountId: string, modes: readonly Mode[]): Promise<ListedKeyRecord[]>
  /** Returns false if there is no such active key. */
  revoke(id: string, modes: readonly Mode[], entry: AuditEntry): Promise<boolean>
  /** Moves `last_used_at` forward, never back. */
  touch(uses: ReadonlyMap<string, number>): Promise<void>
}

/** A sign-in session. Only a hash of the secret in its cookie is stored. */
export interface SessionRecord {
  /** Identifies the session in lists; it gives no access. */
  readonly id: string
  readonly idHash: string
  readonly accountId: string
  readonly createdAt: number
  /** When it was last extended. */
  readonly seenAt: number
  readonly expiresAt: number
  /** Browser and system, if known. */
  readonly client: string | null
  /** The address where it began, if the operator records addresses. */
  readonly address: string | null
}

export interface SessionStore {
  /** Returns false if the account's hash is no longer `passwordHash`. */
  create(session: SessionRecord, passwordHash: string, entry: AuditEntry): Promise<boolean>
  find(idHash: string): Promise<(SessionRecord & { readonly plan: Plan; readonly status: AccountStatus }) | undefined>
  renew(idHash: string, seenAt: number, expiresAt: number): Promise<void>
  /** Ends a session, if there is one; `entryOf` makes the entry for its account. */
  remove(idHash: string, entryOf: (accountId: string) => AuditEntry): Promise<void>
  /** At most `limit` sessions of the account that have not expired, newest first. */
  list(accountId: string, now: number, limit: number): Promise<SessionRecord[]>
  /**
   * Ends the session with that id, or, if `which` is `all`, all except the caller's own; returns how many. Undefined if
   * the caller's own session has ended: a thief whose session was ended must not be able to end the owner's.
   */
  endOthers(callerHash: string, which: string, entry: AuditEntry): Promise<number | undefined>
}

/** A browser in which someone has signed in. Only a hash of the secret in its cookie is stored. */
export interface DeviceRecord {
  readonly idHash: string
  readonly accountId: string
  readonly expiresAt: number
}

export interface DeviceStore {
  /** The device, unless it has expired. */
  find(idHash: string, now: number): Promise<DeviceRecord | undefined>
  /**
   * Adds or extends a device. For each account, the `most` devices that expire last are kept. False if the account's
   * hash is no longer `passwordHash`.
   */
  put(device: DeviceRecord, passwordHash: string, most: number): Promise<boolean>
}

/** One account's counters of one mode and month. */
export interface Meter {
  readonly accountId: string
  readonly mode: Mode
  /** Start of the UTC month. */
  readonly period: number
}

/** Counters of messages and token exchanges. */
export interface UsageStore {
  read(
    meter: Meter,
    sinceDay: string,
  ): Promise<{
    readonly used: number
    readonly reserved: number
    readonly tokenExchanges: number
    readonly days: ReadonlyMap<string, number>
  }>
  /** Adds to the counters of the meters and of the keys. */
  addTokenExchanges(counts: readonly (Meter & { readonly keyId: string; readonly count: number })[]): Promise<void>
}

/** A share of a quota that one relay node may spend. */
export interface LeaseRecord extends Meter {
  readonly id: string
  readonly amount: number
  readonly spent: number
  readonly state: 'open' | 'expired' | 'closed'
  readonly expiresAt: number
  /** The part of `spent` that each key has spent; the rest is from guests, or unknown. */
  readonly byKey: Readonly<Record<string, number>>
}

/** Quota leases. Every change of lease and counters is one transaction. */
export interface LeaseStore {
  /** Settles every open lease of the meter that expired before `now`, as `expire` decides. */
  sweep(meter: Meter, now: number, expire: (lease: LeaseRecord) => Settlement): Promise<void>
  /** The meters with open leases that expired before `now`. */
  expired(now: number): Promise<Meter[]>
  /** Grants `size(remaining)` of the limit (`null`: no limit), or nothing if that is 0. */
  grant(
    lease: Meter & { readonly id: string; readonly expiresAt: number; readonly limit: number | null },
    size: (remaining: number) => number,
  ): Promise<{ readonly granted: number; readonly outstanding: number }>
  /** Applies the settlement that `change` returns; `undefined` if the lease does not exist. */
  settle(
    id: string,
    change: (lease: LeaseRecord, account: AccountStatus) => Settlement,
  ): Promise<LeaseRecord | undefined>
}

/** How a settlement changes a lease and its period's counters. */
export interface Settlement {
  readonly lease: LeaseRecord
  readonly used: number
  readonly reserved: number
  /** The newly reported amounts, by key. */
  readonly keys: Readonly<Record<string, number>>
  /** The UTC day (YYYY-MM-DD) on which `used` is booked. */
  readonly day: string
}

/** An encrypted signing key. */
export interface SealedSigningKey {
  /** Increases by one; unique, so that two nodes never both create the next one. */
  readonly generation: number
  readonly kid: string
  readonly sealed: string
  readonly createdAt: number
  readonly activeFrom: number
}

export interface SigningKeyStore {
  /** The undamaged keys. */
  all(): Promise<SealedSigningKey[]>
  /** Returns false if this generation exists: another node created it first, or its row is damaged. */
  add(key: SealedSigningKey): Promise<boolean>
  /** Deletes the keys before this generation. */
  removeBefore(generation: number): Promise<void>
}

/** A channel that relays are to delete. */
export interface DeletionRecord {
  readonly id: string
  readonly accountId: string
  readonly mode: Mode
  readonly name: string
  /** Null if only the name is known. */
  readonly channelId: string | null
  readonly expiresAt: number
}

/** Channels that relays are to delete. */
export interface DeletionStore {
  /** Adds a request, in place of an earlier one for that name; `limit` if the account has `most` others. */
  create(deletion: DeletionRecord, most: number, entry: AuditEntry): Promise<'created' | 'limit' | 'unknown'>
  /** At most `limit` requests that a relay has not answered, the oldest first. */
  pending(relayId: string, now: number, limit: number): Promise<DeletionRecord[]>
  /** A relay has no such channel. */
  missing(id: string, relayId: string): Promise<void>
  /** A relay has deleted the channel: ends the request, if it still waits. */
  deleted(id: string, entryOf: (deletion: DeletionRecord) => AuditEntry): Promise<void>
}

/** The resources that earlier requests with an Idempotency-Key created. */
export interface IdempotencyStore {
  find(
    scope: string,
    key: string,
    now: number,
  ): Promise<{ readonly fingerprint: string; readonly resourceId: string } | undefined>
}

/** A window in which attempts are counted. */
export interface RateWindow {
  readonly count: number
  readonly ends: number
}

/** A window requested by a limit. */
export interface AskedWindow {
  readonly policy: string
  /** The subject whose attempts it counts, as an opaque name. */
  readonly subject: string
  readonly limit: number
  /** The length of a window in milliseconds. */
  readonly length: number
  readonly now: number
}

/** Windows of rate limits that all nodes count together. */
export interface RateWindowStore {
  /** Counts one attempt, in a new window if none is open; counts nothing if the limit is reached (`isFull`). */
  spend(window: AskedWindow): Promise<RateWindow & { readonly isFull: boolean }>
  read(window: AskedWindow): Promise<RateWindow | undefined>
  /** Takes one attempt back, if the window is still open. */
  refund(window: AskedWindow): Promise<RateWindow | undefined>
  /** Deletes windows that have ended and, for each policy, those beyond `most` that end first. */
  prune(now: number, most: number): Promise<void>
}

/** All stores over one database. */
export interface Store {
  readonly accounts: AccountStore
  readonly keys: KeyStore
  readonly sessions: SessionStore
  readonly devices: DeviceStore
  readonly usage: UsageStore
  readonly leases: LeaseStore
  readonly signingKeys: SigningKeyStore
  readonly idempotency: IdempotencyStore
  readonly links: LinkStore
  readonly audit: AuditStore
  readonly deletions: DeletionStore
  readonly rateWindows: RateWindowStore
  /** The public address with which the API last started, for the operator's links. */
  readonly publicUrl: { read(): Promise<string | undefined>; write(url: string): Promise<void> }
  /**
   * Deletes expired sessions, devices, links, deletions and idempotency keys, settled leases, and audit entries from
   * before `auditFrom`.
   */
  prune(now: number, auditFrom: number): Promise<void>
  /** Reads every row that has a checksum and reports the damaged ones. */
  verify(): Promise<void>
  /** Rejects if the database does not respond. */
  ping(): Promise<void>
  close(): Promise<void>
}
