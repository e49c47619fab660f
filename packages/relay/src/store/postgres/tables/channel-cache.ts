/**
 * Channel records that a lane caches between transactions, each with the version it was read at. The least recently
 * used ones are packed.
 */
import type { ChannelId } from '../../../ports.ts'
import { weighChannel } from '../../records/channel-weight.ts'
import type { KnownAccounts } from './accounts.ts'
import type { Kept } from './kept.ts'
import { pack, unpack } from './packed-channel.ts'

/** Approximate memory limit for the records of all lanes. */
export const CACHED_BYTES: number = 128 * 1_048_576
/** The share of it for unpacked records. */
const KEPT_SHARE = 0.5
/** The measured size of the parts of a record; a member includes its receipt. */
const PART_BYTES = { channel: 2600, member: 900, former: 1200, sender: 560, position: 300 }
/** Memory of a packed record in addition to its bytes: its id, and its place in the map. */
const PACKED_BYTES = 128

/** The limits of a lane's cache. */
export interface CacheOptions {
  readonly cachedBytes: number
  /**
   * How long member cursors that other nodes may move count as current in a channel with entries, and how long a
   * channel counts as shared after another node changed it.
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
  /** Used less recently than those above. */
  readonly #packed = new Map<ChannelId, string>()
  #keptWeight = 0
  #packedWeight = 0

  /** `limit` is the approximate memory limit in bytes. */
  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): { readonly channels: number; readonly bytes: number } {
    return { channels: this.#kept.size + this.#packed.size, bytes: this.#keptWeight + this.#packedWeight }
  }

  /** Returns the same record for the same id until the next `put`. */
  get(id: ChannelId): Kept | undefined {
    const packed = this.#packed.get(id)
    if (packed !== undefined) {
      this.drop(id)
      this.#add(unpack(packed))
    }
    return this.#kept.get(id)?.kept
  }

  /** Caches a channel as the most recently used. Packs the least recently used ones, and finally forgets them. */
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
