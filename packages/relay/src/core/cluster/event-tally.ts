/**
 * Recognizes events that arrive twice: once told by the node where they happened, once read from the store. Either may
 * come first. Events that mean the same to an agent however often it hears of them are not tallied.
 */
import type { StoreEvent, Time } from '../../ports.ts'

type Tallied = Exclude<StoreEvent, { type: 'appended' }>

/** Longer than the store keeps notices. */
const KEPT_MS = 90_000
const MAX_EVENTS = 20_000

/** How often each event was told more than read; negative: read more than told. */
export class EventTally {
  readonly #counts = new Map<string, { surplus: number; readonly since: Time }>()

  /** Records an event from one source. Returns false if the other source has brought it already. */
  isNew(event: Tallied, source: 'told' | 'read', now: Time): boolean {
    if (event.type === 'welcomed' || event.type === 'joinRequested') return true
    // In any order of the fields: an engine may keep them in its own.
    const key = JSON.stringify(Object.entries(event).sort(([one], [other]) => (one < other ? -1 : 1)))
    const known = this.#counts.get(key)
    const step = source === 'told' ? 1 : -1
    const surplus = (known?.surplus ?? 0) + step
    this.#counts.delete(key)
    if (surplus !== 0) this.#counts.set(key, { surplus, since: now })
    if (this.#counts.size > MAX_EVENTS) this.#dropOldest()
    return Math.abs(surplus) > Math.abs(surplus - step)
  }

  /** Forgets events whose other half will not come. */
  forget(now: Time): void {
    for (const [key, { since }] of this.#counts) {
      if (now - since <= KEPT_MS) return
      this.#counts.delete(key)
    }
  }

  #dropOldest(): void {
    for (const key of this.#counts.keys()) {
      this.#counts.delete(key)
      return
    }
  }
}
