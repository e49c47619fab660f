/**
 * The audit log: the events of an account. The stores write an entry in the transaction of the change it reports. Only
 * failed sign-ins are buffered: a write before the answer would reveal that the account exists.
 */
import { type AuditEvent, type AuditPage, type AuditedEvent, StaticError } from '@static/protocol'
import type { AuditEntry, AuditRecord, AuditStore, Clock } from '../ports.ts'
import { isoTime } from './calendar.ts'
import type { Caller } from './caller.ts'
import { isId } from './id.ts'
import type { RateContext } from './rate-policy.ts'
import { invalidField } from './text.ts'

/** Failed sign-ins beyond this many (account, address) pairs are not logged until the next flush. */
const MAX_PENDING = 10_000
/** The default page size. */
export const AUDIT_PAGE = 50

export class Audit {
  readonly #store: AuditStore
  readonly #addresses: boolean
  readonly #now: Clock
  #failures = new Map<string, AuditEntry & { count: number }>()
  #last: Promise<void> = Promise.resolve()

  /** `addresses`: record the client's address. */
  constructor(store: AuditStore, addresses: boolean, now: Clock) {
    this.#store = store
    this.#addresses = addresses
    this.#now = now
  }

  /** An entry about an action of the account's user. */
  byUser(event: AuditEvent, accountId: string, context: RateContext, keyId?: string): AuditEntry {
    const address = this.#addresses ? context.address : undefined
    return { accountId, at: this.#now(), actor: 'user', event, address, ...(keyId === undefined ? {} : { keyId }) }
  }

  /** Counts a wrong password. Written by the next `flush`. */
  failed(accountId: string, context: RateContext): void {
    const entry = this.byUser('sign_in_failed', accountId, context)
    const name = `${accountId} ${entry.address ?? ''}`
    const pending = this.#failures.get(name)
    if (pending) pending.count++
    else if (this.#failures.size < MAX_PENDING) this.#failures.set(name, { ...entry, count: 1 })
  }

  /** Writes the failed sign-ins. Writes are serialized: when this resolves, everything counted before is written. */
  flush(): Promise<void> {
    const written = this.#last.then(() => this.#write())
    this.#last = written.catch(() => {})
    return written
  }

  async #write(): Promise<void> {
    if (this.#failures.size === 0) return
    const failures = this.#failures
    this.#failures = new Map()
    try {
      await this.#store.add([...failures.values()])
    } catch (error) {
      // Some may have been written. Counting them twice is better than not at all.
      for (const [name, entry] of failures) {
        const pending = this.#failures.get(name)
        if (pending) pending.count += entry.count
        else if (this.#failures.size < MAX_PENDING) this.#failures.set(name, entry)
      }
      throw error
    }
  }

  /** A page of the caller's own events, newest first. Throws `mode_mismatch` for a test key. */
  async own(caller: Caller, before: string | undefined, limit: number): Promise<AuditPage> {
    if (caller.mode === 'test')
      throw StaticError.of('mode_mismatch', 'A test key cannot read the audit log. Use a live key.')
    await this.flush()
    return readAudit(this.#store, caller.accountId, before, limit)
  }
}

/** A page of the events of an account, or of all accounts. */
export async function readAudit(
  store: AuditStore,
  accountId: string | undefined,
  before: string | undefined,
  limit: number,
): Promise<AuditPage> {
  if (before !== undefined && !isId(before)) throw invalidField('before', 'must be the id of an event')
  const found = await store.list(accountId, before, limit + 1)
  const events = found.slice(0, limit).map(publicEvent)
  return { events, next: found.length > limit ? (events.at(-1)?.id ?? null) : null }
}

function publicEvent(record: AuditRecord): AuditedEvent {
  const { id, at, lastAt, count, actor, accountId, event, keyId, inviteId, plan, channel, address } = record
  return {
    id,
    at: isoTime(at),
    count,
    last_at: isoTime(lastAt),
    actor,
    account_id: accountId,
    event,
    key_id: keyId,
    invite_id: inviteId,
    plan,
    channel,
    address,
  }
}
