/** The interfaces that the rules of the API depend on. Each store is one file in `db/`. */
import type { AccountStatus, Mode, Plan } from '@static/protocol'

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

/** The public part of a key. */
export type ListedKeyRecord = Omit<KeyRecord, 'accountId' | 'hash'>

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

/** The credential that a caller authenticated with. A write can check that it is still valid. */
export type Credential =
  | { readonly by: 'key'; readonly id: string }
  | { readonly by: 'session'; readonly idHash: string }
  | { readonly by: 'password'; readonly hash: string }

export interface AccountStore {
  /** Account and first key, both or none. */
  create(
    account: AccountRecord,
    key: KeyRecord,
    claim?: IdempotencyClaim,
  ): Promise<'created' | 'email_taken' | 'claimed'>
  byId(id: string): Promise<AccountRecord | undefined>
  /** Ignores case. */
  byEmail(email: string): Promise<AccountRecord | undefined>
  /** Sets the hash and ends all sign-in sessions; false if the hash is no longer `oldHash`. */
  setPassword(id: string, oldHash: string, newHash: string): Promise<boolean>
  /** Closes, revokes all keys, ends all sessions, erases personal data; false if the hash is no longer `oldHash`. */
  close(id: string, oldHash: string, now: number): Promise<boolean>
  /** Sets plan or status of an account that is not closed; false if there is none. */
  change(id: string, change: { readonly plan: Plan } | { readonly status: 'active' | 'suspended' }): Promise<boolean>
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
    claim?: IdempotencyClaim,
  ): Promise<'created' | 'limit' | 'claimed' | 'refused'>
  byPrefix(prefix: string): Promise<VerifiableKey | undefined>
  /** Active keys, newest first, ties by id descending. */
  list(accountId: string, modes: readonly Mode[]): Promise<ListedKeyRecord[]>
  /** False if there is no such active key. */
  revoke(accountId: string, id: string, modes: readonly Mode[], now: number): Promise<boolean>
  /** Moves `last_used_at` forward, never back. */
  touch(uses: ReadonlyMap<string, number>): Promise<void>
}

/** A sign-in session. Only the hash of its id is stored. */
export interface SessionRecord {
  readonly idHash: string
  readonly accountId: string
  readonly createdAt: number
  readonly expiresAt: number
}

export interface SessionStore {
  /** False if the account's hash is no longer `passwordHash`. */
  create(session: SessionRecord, passwordHash: string): Promise<boolean>
  find(idHash: string): Promise<(SessionRecord & { readonly plan: Plan; readonly status: AccountStatus }) | undefined>
  renew(idHash: string, expiresAt: number): Promise<void>
  remove(idHash: string): Promise<void>
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
  addTokenExchanges(counts: readonly (Meter & { readonly count: number })[]): Promise<void>
}

/** A share of a quota that one relay node may spend. */
export interface LeaseRecord extends Meter {
  readonly id: string
  readonly amount: number
  readonly spent: number
  readonly state: 'open' | 'expired' | 'closed'
  readonly expiresAt: number
}

/** Quota leases. Every change of lease and counters is one transaction. */
export interface LeaseStore {
  /** Settles every open lease of the meter that expired before `now`, as `expire` decides. */
  sweep(meter: Meter, now: number, expire: (lease: LeaseRecord) => Settlement): Promise<void>
  /** The meters with open leases that expired before `now`. */
  expired(now: number): Promise<Meter[]>
  /** Grants `size(remaining)` of the limit (`null`: no limit); nothing if that is 0. */
  grant(
    lease: Meter & { readonly id: string; readonly expiresAt: number; readonly limit: number | null },
    size: (remaining: number) => number,
  ): Promise<{ readonly granted: number; readonly outstanding: number }>
  /** Applies the settlement that `change` returns; `undefined` if the lease does not exist. */
  settle(id: string, change: (lease: LeaseRecord) => Settlement): Promise<LeaseRecord | undefined>
}

/** How a settlement changes a lease and its period's counters. */
export interface Settlement {
  readonly lease: LeaseRecord
  readonly used: number
  readonly reserved: number
  /** The UTC day (YYYY-MM-DD) that `used` is booked on. */
  readonly day: string
}

/** A signing key at rest. */
export interface SealedSigningKey {
  /** Increases by one; unique, so that two nodes never both create the next one. */
  readonly generation: number
  readonly kid: string
  readonly sealed: string
  readonly createdAt: number
  readonly activeFrom: number
}

export interface SigningKeyStore {
  all(): Promise<SealedSigningKey[]>
  /** False if another node created this generation first. */
  add(key: SealedSigningKey): Promise<boolean>
  /** Deletes the keys before this generation. */
  removeBefore(generation: number): Promise<void>
}

/** The resources that earlier requests with an Idempotency-Key created. */
export interface IdempotencyStore {
  find(
    scope: string,
    key: string,
    now: number,
  ): Promise<{ readonly fingerprint: string; readonly resourceId: string } | undefined>
}

/** All stores over one database. */
export interface Store {
  readonly accounts: AccountStore
  readonly keys: KeyStore
  readonly sessions: SessionStore
  readonly usage: UsageStore
  readonly leases: LeaseStore
  readonly signingKeys: SigningKeyStore
  readonly idempotency: IdempotencyStore
  /** Deletes expired sessions, idempotency keys and settled leases. */
  prune(now: number): Promise<void>
  /** Rejects if the database does not respond. */
  ping(): Promise<void>
  close(): Promise<void>
}
