/** API keys: create, list and revoke. */
import { type CreatedKey, type ListedKey, type Mode, StaticError } from '@static/protocol'
import { makeApiKey, parseApiKey } from '../secrets/api-key.ts'
import type { Audit } from './audit.ts'
import { isoTime, monthOf } from './calendar.ts'
import { type Caller, modesOf } from './caller.ts'
import type { Hasher } from '../secrets/hash.ts'
import { isId, newId } from './id.ts'
import { alreadyMade, claimFor, earlier, mismatch } from './idempotency.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'
import type { Clock, KeyRecord, Store } from '../ports.ts'
import { cleanName } from './text.ts'
import type { KeyUsageBuffer } from './key-usage.ts'

/** The error code for a credential that is no longer valid. */
const WITHDRAWN = { key: 'auth_key_invalid', session: 'auth_failed', password: 'invalid_credentials' } as const

export interface KeyRequest {
  readonly name?: string | undefined
  readonly mode?: Mode | undefined
}

export interface KeysOptions {
  readonly store: Pick<Store, 'keys' | 'idempotency'>
  readonly hasher: Hasher
  readonly limits: Limits
  readonly audit: Audit
  readonly keyUsage: KeyUsageBuffer
  /** Maximum number of active keys of an account. */
  readonly most: number
  readonly now: Clock
}

export class Keys {
  readonly #store: Pick<Store, 'keys' | 'idempotency'>
  readonly #hasher: Hasher
  readonly #limits: Limits
  readonly #audit: Audit
  readonly #keyUsage: KeyUsageBuffer
  readonly #most: number
  readonly #now: Clock

  constructor({ store, hasher, limits, audit, keyUsage, most, now }: KeysOptions) {
    this.#store = store
    this.#hasher = hasher
    this.#limits = limits
    this.#audit = audit
    this.#keyUsage = keyUsage
    this.#most = most
    this.#now = now
  }

  /** Generates a key without storing it: its record, and the key itself, which is never stored. */
  async make(accountId: string, name: string, mode: Mode): Promise<{ record: KeyRecord; key: string }> {
    const key = makeApiKey(mode)
    const parsed = parseApiKey(key)
    if (!parsed) throw new Error('A generated key does not parse.')
    const hash = await this.#hasher.hash(key)
    const now = this.#now()
    return {
      record: { id: newId(now), accountId, prefix: parsed.prefix, name, mode, hash, createdAt: now, lastUsedAt: null },
      key,
    }
  }

  /** Creates a key for the caller's account. Throws `mode_mismatch`, `key_limit_reached` and the idempotency codes. */
  async create(
    caller: Caller,
    wanted: KeyRequest,
    idempotencyKey: string | undefined,
    context: RateContext,
  ): Promise<CreatedKey> {
    const name = cleanName(wanted.name ?? 'default')
    const mode = wanted.mode ?? caller.mode
    if (!modesOf(caller).includes(mode)) {
      throw StaticError.of('mode_mismatch', 'A test key cannot create live keys. Use a live key.')
    }
    const claim = claimFor(caller.accountId, idempotencyKey, [name, mode], this.#now())
    const made = await earlier(this.#store.idempotency, claim, this.#now)
    if (made !== undefined) throw alreadyMade(made)
    this.#limits.keyCreations.spend(caller.accountId, context)

    const { record, key } = await this.make(caller.accountId, name, mode)
    const entry = this.#audit.byUser('key_created', caller.accountId, context, record.id)
    const result = await this.#store.keys.create(record, this.#most, caller.credential, claim, entry)
    switch (result) {
      case 'created':
        return {
          id: record.id,
          key_prefix: record.prefix,
          name,
          mode,
          created_at: isoTime(record.createdAt),
          key,
        }
      case 'limit':
        throw StaticError.of(
          'key_limit_reached',
          `The account has ${this.#most} active keys, the maximum. Revoke one that you no longer use.`,
        )
      case 'refused':
        throw StaticError.of(
          WITHDRAWN[caller.credential.by],
          'The credential was revoked while the key was being created.',
        )
      case 'claimed': {
        const other = await earlier(this.#store.idempotency, claim, this.#now)
        throw other === undefined ? mismatch() : alreadyMade(other)
      }
    }
  }

  /** The active keys that the caller may see, newest first. */
  async list(caller: Caller): Promise<ListedKey[]> {
    const records = await this.#keyUsage.betweenWrites(() => this.#store.keys.list(caller.accountId, modesOf(caller)))
    const { start } = monthOf(this.#now())
    return records.map(({ id, prefix, name, mode, createdAt, lastUsedAt, ...counted }) => ({
      id,
      key_prefix: prefix,
      name,
      mode,
      created_at: isoTime(createdAt),
      last_used_at: lastUsedAt === null ? null : isoTime(lastUsedAt),
      messages: counted.countedPeriod === start ? counted.messages : 0,
      token_exchanges:
        (counted.countedPeriod === start ? counted.exchanges : 0) + this.#keyUsage.pendingExchangesOf(id, start),
    }))
  }

  /** Revokes a key, immediately and permanently. Throws `not_found` unless it is an active key of the caller. */
  async revoke(caller: Caller, id: string, context: RateContext): Promise<void> {
    const entry = this.#audit.byUser('key_revoked', caller.accountId, context, id)
    const done = isId(id) && (await this.#store.keys.revoke(id, modesOf(caller), entry))
    // Echoes only well-formed ids, because a key passed by mistake is a secret.
    if (!done)
      throw StaticError.of('not_found', isId(id) ? `There is no active key ${id}.` : 'There is no such active key.')
  }
}
