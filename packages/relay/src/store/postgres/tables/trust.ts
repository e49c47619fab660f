/** How far a lane trusts what it remembers of channels that other nodes change, too. */
import type { ChannelId } from '../../../ports.ts'

const MAX_CHANNELS = 10_000

/** Channels, each for a while after it was noticed. */
class Noticed {
  readonly #forMs: number
  /** When, by the monotonic clock. */
  readonly #at = new Map<ChannelId, number>()

  constructor(forMs: number) {
    this.#forMs = forMs
  }

  add(id: ChannelId): void {
    if (this.#at.size >= MAX_CHANNELS) this.#at.clear()
    this.#at.set(id, performance.now())
  }

  has(id: ChannelId): boolean {
    const at = this.#at.get(id)
    if (at === undefined) return false
    if (performance.now() - at < this.#forMs) return true
    this.#at.delete(id)
    return false
  }
}

/** A version that a batch of messages took for current: as remembered, or as read just before. */
interface Assumed {
  readonly version: number
  readonly source: 'remembered' | 'read'
}

/** The channels of a lane. */
export class Trust {
  /** Channels that other nodes change: they are read before each message. */
  readonly #shared: Noticed
  /** Channels whose messages could not be stored without a lock: each try would be in vain. */
  readonly #distrusted: Noticed
  readonly #assumed = new Map<ChannelId, Assumed>()

  /** `forMs`: for how long a channel counts as shared or distrusted after it was noticed. */
  constructor(forMs: number) {
    this.#shared = new Noticed(forMs)
    this.#distrusted = new Noticed(forMs)
  }

  isShared(id: ChannelId): boolean {
    return this.#shared.has(id)
  }

  /** For a while, messages to a channel are stored with a lock. */
  distrust(id: ChannelId): void {
    this.#distrusted.add(id)
  }

  isDistrusted(id: ChannelId): boolean {
    return this.#distrusted.has(id)
  }

  assume(id: ChannelId, version: number, source: Assumed['source']): void {
    this.#assumed.set(id, { version, source })
  }

  /** The version that a channel has, and the one that is remembered, if any. */
  found(id: ChannelId, version: number, remembered: number | undefined): void {
    const assumed = this.#assumed.get(id)
    const before = assumed?.version ?? remembered
    if (before === undefined || before === version) return
    // Changed even in the moment between reading and writing.
    if (assumed?.source === 'read') this.distrust(id)
    this.#shared.add(id)
  }

  /** A batch is committed: what was assumed does not matter any more. */
  settle(): void {
    this.#assumed.clear()
  }
}
