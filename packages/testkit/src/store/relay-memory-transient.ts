/** Join requests, used nonces and notices as maps. */
import { toHex } from '@static/protocol'
import type { Notices, StoreEvent, Time, TransientRows } from '@static/relay/internal'
import { MemoryJoinRows } from './relay-memory-joins.ts'

/** How long notices are kept. */
const NOTICES_KEPT_MS = 60_000

/** All short-lived rows, in memory. */
export class MemoryTransientRows implements TransientRows {
  readonly joins: MemoryJoinRows
  readonly #nonces = new Map<string, Time>()
  /** Notices, with the time of the first sweep that saw them. */
  readonly #notices: { readonly event: StoreEvent; seenAt: Time | undefined }[] = []
  /** How many notices were dropped before the first. */
  #dropped = 0

  constructor(joins: MemoryJoinRows = new MemoryJoinRows()) {
    this.joins = joins
  }

  /** A copy that changes on its own. */
  copy(): MemoryTransientRows {
    const copy = new MemoryTransientRows(this.joins.copy())
    for (const [key, until] of this.#nonces) copy.#nonces.set(key, until)
    copy.#notices.push(...structuredClone(this.#notices))
    copy.#dropped = this.#dropped
    return copy
  }

  useNonce(nonce: Uint8Array, until: Time): boolean {
    const key = toHex(nonce)
    if (this.#nonces.has(key)) return false
    this.#nonces.set(key, until)
    return true
  }

  addNotice(event: StoreEvent): void {
    this.#notices.push({ event, seenAt: undefined })
  }

  notices(after: string | undefined, limit: number): Notices {
    const end = this.#dropped + this.#notices.length
    const from = after === undefined ? end : Number(after)
    const through = Math.min(end, from + limit)
    const events = this.#notices.slice(Math.max(0, from - this.#dropped), through - this.#dropped)
    return { events: events.map(({ event }) => event), position: String(through), more: through < end }
  }

  expire(now: Time): void {
    this.joins.expire(now)
    for (const [key, until] of this.#nonces) if (until <= now) this.#nonces.delete(key)
    for (const notice of this.#notices) notice.seenAt ??= now
    const kept = this.#notices.findIndex(({ seenAt = now }) => now - seenAt < NOTICES_KEPT_MS)
    const old = kept < 0 ? this.#notices.length : kept
    this.#notices.splice(0, old)
    this.#dropped += old
  }
}
