/** Channels that other nodes change, too: what this node remembers of them is seldom current. */
import type { ChannelId } from '../../../ports.ts'

const MAX_CHANNELS = 10_000

/** The channels that a lane shares with other nodes. */
export class SharedChannels {
  readonly #sharedMs: number
  /** When it was last noticed, by the monotonic clock. */
  readonly #noticed = new Map<ChannelId, number>()

  /** `sharedMs`: for how long a channel counts as shared after another node was seen to have changed it. */
  constructor(sharedMs: number) {
    this.#sharedMs = sharedMs
  }

  add(id: ChannelId): void {
    if (this.#noticed.size >= MAX_CHANNELS) this.#noticed.clear()
    this.#noticed.set(id, performance.now())
  }

  has(id: ChannelId): boolean {
    const at = this.#noticed.get(id)
    if (at === undefined) return false
    if (performance.now() - at < this.#sharedMs) return true
    this.#noticed.delete(id)
    return false
  }
}
