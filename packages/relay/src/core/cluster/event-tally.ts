/**
 * Recognizes events that arrive twice: once announced by the node where they happened, once read from the store. Either
 * may come first. Events that an agent may safely get twice are not tallied.
 */
import type { StoreEvent, Time } from '../../ports.ts'

type Tallied = Exclude<StoreEvent, { type: 'appended' }>

/** Longer than the store keeps notices. */
const KEPT_MS = 90_000
const MAX_EVENTS = 20_000

/** How many more times each event was announced than read; negative: read more often. */
export class EventTally {
  readonly #counts = new Map<string, { surplus: number; readonly since: Time }>()

  /** Records an event from one source. Returns false if the other source already brought it. */
  isNew(event: Tallied, source: 'told' | 'read', now: Time): boolean {
    if (event.type === 'welcomed' || event.type === 'joinRequested') return true
    // Independent of the order of the fields, which an engine may change.
    const key = JSON.stringify(Object.entries(event).sort(([one], [other]) => (one < other ? -1 : 1)))
    const known = this.#counts.get(key)
    const step = source === 'told' ? 1 : -1
    const surplus = (known?.surplus ?? 0) + step
    this.#counts.delete(key)
    if (surplus !== 0) this.#counts.set(key, { surplus, since: now })
    if (this.#counts.size > MAX_EVENTS) this.#dropOldest()
    return Math.abs(surplus) > Math.abs(surplus - step)
  }

  /** Forgets events that the other source will not bring. */
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
