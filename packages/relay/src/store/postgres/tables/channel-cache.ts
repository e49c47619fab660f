/** Channel records that a lane remembers from one transaction to the next, each with the version it was read at. */
import type { ChannelId } from '../../../ports.ts'
import type { Channel } from '../../ledger/state.ts'
import type { KnownAccounts } from './accounts.ts'

/** Approximate memory limit for the records of all lanes, and the approximate size of their parts. */
export const CACHED_BYTES: number = 64 * 1_048_576
const CHANNEL_BYTES = 4096
const MEMBER_BYTES = 800
const FORMER_BYTES = 1200
const SENDER_BYTES = 600
const POSITION_BYTES = 300

/** What a lane may remember. */
export interface CacheOptions {
  readonly cachedBytes: number
  /**
   * How long cursors of members that other nodes may have moved count as known, in a channel that holds entries, and how
   * long a channel that another node was seen to change counts as shared.
   */
  readonly freshMs: number
  readonly accounts: KnownAccounts
}

/** A channel as it is in the database, or as the current transaction has changed it. */
export interface Kept {
  readonly channel: Channel
  version: number
  /** When its members were read, by the monotonic clock: acknowledgements do not raise the version. */
  membersAt: number
}

function weigh({ members, former, senders, recent }: Channel): number {
  const people = members.size * MEMBER_BYTES + former.size * FORMER_BYTES + senders.size * SENDER_BYTES
  return CHANNEL_BYTES + people + recent.length * POSITION_BYTES
}

/** The channels in memory, in the order of their last use. */
export class ChannelCache {
  readonly #limit: number
  readonly #kept = new Map<ChannelId, { readonly kept: Kept; readonly weight: number }>()
  #weight = 0

  /** `limit` is the approximate memory limit in bytes. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Number of cached channels and their approximate size. */
  get size(): { readonly channels: number; readonly bytes: number } {
    return { channels: this.#kept.size, bytes: this.#weight }
  }

  get(id: ChannelId): Kept | undefined {
    return this.#kept.get(id)?.kept
  }

  /** Remembers a channel as used last, and forgets those that were not used for longest. */
  put(kept: Kept): void {
    const { id } = kept.channel
    this.drop(id)
    const weight = weigh(kept.channel)
    this.#kept.set(id, { kept, weight })
    this.#weight += weight
    for (const oldest of this.#kept.keys()) {
      if (this.#weight <= this.#limit || this.#kept.size === 1) return
      this.drop(oldest)
    }
  }

  drop(id: ChannelId): void {
    this.#weight -= this.#kept.get(id)?.weight ?? 0
    this.#kept.delete(id)
  }

  clear(): void {
    this.#kept.clear()
    this.#weight = 0
  }
}
