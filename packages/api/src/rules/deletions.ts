/**
 * Channels that relays are to delete (SPEC.md, "Deletion"). The API knows no channels: it hands a request to every
 * relay that asks, until one has deleted the channel of that name. Only the relay knows whose a channel is and when it
 * was created, and deletes none but those of the account in the request that are older than the request.
 */
import { type ChannelDeletion, isChannelName, type Mode, type RequestedDeletion, StaticError } from '@static/protocol'
import { noAccount } from './accounts.ts'
import type { Audit } from './audit.ts'
import { isoTime } from './calendar.ts'
import type { Caller } from './caller.ts'
import { isId, newId } from './id.ts'
import type { AuditEntry, Clock, DeletionRecord, DeletionStore } from '../ports.ts'
import type { RateContext } from './rate-policy.ts'
import { invalidField } from './text.ts'

/** A request that no relay has carried out in this time is dropped. */
const LIFE_MS = 24 * 3600_000
/** The maximum number of requests of one account that wait. */
const MOST_WAITING = 100
/** The maximum number of requests handed to a relay at once. */
const MOST_ASKED = 64

/** A channel to delete: by its name, and by its id where that is known. */
export interface DeletionTarget {
  readonly name: string
  readonly mode: Mode
  readonly channelId: string | null
}

export class Deletions {
  readonly #store: DeletionStore
  readonly #audit: Audit
  readonly #now: Clock

  constructor(store: DeletionStore, audit: Audit, now: Clock) {
    this.#store = store
    this.#audit = audit
    this.#now = now
  }

  /** Queues the deletion of a channel of the caller's account. Throws `invalid_request`, `rate_limited`. */
  async request(caller: Caller, target: DeletionTarget, context: RateContext): Promise<RequestedDeletion> {
    const { accountId } = caller
    const entry = this.#audit.byUser('channel_deletion_requested', accountId, context)
    return await requestDeletion(this.#store, target, entry)
  }

  /** The deletions that a relay should carry out, oldest first. */
  async pending(relayId: string): Promise<readonly ChannelDeletion[]> {
    const found = await this.#store.pending(relayId, this.#now(), MOST_ASKED)
    return found.map(({ id, accountId, mode, name, channelId, expiresAt }) => {
      const requestedAt = isoTime(expiresAt - LIFE_MS)
      return { id, requested_at: requestedAt, account_id: accountId, mode, name, channel_id: channelId }
    })
  }

  /** A relay has deleted the channel, or has none of that name in the account. */
  async report(id: string, relayId: string, deleted: boolean): Promise<void> {
    if (!isId(id)) throw StaticError.of('not_found', 'There is no such deletion.')
    if (!deleted) return await this.#store.missing(id, relayId)
    await this.#store.deleted(id, ({ accountId, name }) => {
      return { accountId, at: this.#now(), actor: 'system', event: 'channel_deleted', channel: name }
    })
  }
}

/** Queues a deletion, with its audit entry. Throws `not_found`, `invalid_request`, `rate_limited`. */
export async function requestDeletion(
  store: Pick<DeletionStore, 'create'>,
  target: DeletionTarget,
  entry: AuditEntry,
): Promise<RequestedDeletion> {
  const { name, mode, channelId } = target
  if (!isChannelName(name)) throw invalidField('name', 'must be the name of a channel')
  const { accountId, at } = entry
  const deletion: DeletionRecord = { id: newId(at), accountId, mode, name, channelId, expiresAt: at + LIFE_MS }
  const result = isId(accountId) ? await store.create(deletion, MOST_WAITING, { ...entry, channel: name }) : 'unknown'
  if (result === 'unknown') throw noAccount(accountId)
  if (result === 'limit') {
    throw StaticError.of(
      'rate_limited',
      `${MOST_WAITING} deletions of this account wait for its relay. Try again later.`,
    )
  }
  return { id: deletion.id, name, mode, channel_id: channelId, expires_at: isoTime(deletion.expiresAt) }
}
