/** How far a lane trusts its cache of channels that other nodes also change. */
import type { ChannelId } from '../../../ports.ts'

const MAX_CHANNELS = 10_000

/** Channels, each remembered for a while after it was noticed. */
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

/** A version that a batch of messages assumed to be current: cached, or read just before. */
interface Assumed {
  readonly version: number
  readonly source: 'remembered' | 'read'
}

export class Trust {
  /** Channels that other nodes change: they are read before each message. */
  readonly #shared: Noticed
  /** Channels whose messages could not be stored without a lock: they skip the fast path. */
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

  /** Compares a channel's version with the cached one, if any. */
  found(id: ChannelId, version: number, remembered: number | undefined): void {
    const assumed = this.#assumed.get(id)
    const before = assumed?.version ?? remembered
    if (before === undefined || before === version) return
    // It changed even between reading and writing.
    if (assumed?.source === 'read') this.distrust(id)
    this.#shared.add(id)
  }

  /** Called when a batch is committed: its assumptions no longer matter. */
  settle(): void {
    this.#assumed.clear()
  }
}
