/**
 * Channel records that a lane remembers from one transaction to the next, each with the version it was read at. Those that
 * were not used for longest are packed.
 */
import type { ChannelId } from '../../../ports.ts'
import { weighChannel } from '../../records/channel-weight.ts'
import type { KnownAccounts } from './accounts.ts'
import type { Kept } from './kept.ts'
import { pack, unpack } from './packed-channel.ts'

/** Approximate memory limit for the records of all lanes. */
export const CACHED_BYTES: number = 128 * 1_048_576
/** How much of it is for records that are not packed. */
const KEPT_SHARE = 0.5
/** What the parts of a record take, as measured; a member with its receipt. */
const PART_BYTES = { channel: 2600, member: 900, former: 1200, sender: 560, position: 300 }
/** What a packed record takes besides its bytes: its id, and its place in the list. */
const PACKED_BYTES = 128

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

function weighPacked(packed: string): number {
  return PACKED_BYTES + packed.length
}

/** The channels in memory, in the order of their last use. */
export class ChannelCache {
  readonly #limit: number
  readonly #kept = new Map<ChannelId, { readonly kept: Kept; readonly weight: number }>()
  /** Used before those above. */
  readonly #packed = new Map<ChannelId, string>()
  #keptWeight = 0
  #packedWeight = 0

  /** `limit` is the approximate memory limit in bytes. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Number of cached channels and their approximate size. */
  get size(): { readonly channels: number; readonly bytes: number } {
    return { channels: this.#kept.size + this.#packed.size, bytes: this.#keptWeight + this.#packedWeight }
  }

  /** Until the next `put`, the same record for the same id. */
  get(id: ChannelId): Kept | undefined {
    const packed = this.#packed.get(id)
    if (packed !== undefined) {
      this.drop(id)
      this.#add(unpack(packed))
    }
    return this.#kept.get(id)?.kept
  }

  /** Remembers a channel as used last. Packs those that were not used for longest, and forgets them in the end. */
  put(kept: Kept): void {
    this.drop(kept.channel.id)
    this.#add(kept)
    for (const [id, { kept: oldest }] of this.#kept) {
      if (this.#keptWeight <= this.#limit * KEPT_SHARE || this.#kept.size === 1) break
      this.drop(id)
      const packed = pack(oldest)
      this.#packed.set(id, packed)
      this.#packedWeight += weighPacked(packed)
    }
    for (const id of this.#packed.keys()) {
      if (this.#keptWeight + this.#packedWeight <= this.#limit) break
      this.drop(id)
    }
  }

  drop(id: ChannelId): void {
    const packed = this.#packed.get(id)
    if (packed !== undefined) this.#packedWeight -= weighPacked(packed)
    this.#packed.delete(id)
    this.#keptWeight -= this.#kept.get(id)?.weight ?? 0
    this.#kept.delete(id)
  }

  clear(): void {
    this.#kept.clear()
    this.#packed.clear()
    this.#keptWeight = 0
    this.#packedWeight = 0
  }

  #add(kept: Kept): void {
    const weight = weighChannel(kept.channel, PART_BYTES)
    this.#kept.set(kept.channel.id, { kept, weight })
    this.#keptWeight += weight
  }
}
