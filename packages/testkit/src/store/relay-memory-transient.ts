/** Join requests, used nonces and notices as maps. */
import { toHex } from '@static/protocol'
import {
  type AgentId,
  type JoinHeader,
  type JoinQueue,
  type JoinRequest,
  type Notices,
  type StoreEvent,
  type Time,
  type TransientRows,
  queueOf,
} from '@static/relay/internal'

/** How long notices are kept. */
const NOTICES_KEPT_MS = 60_000

/** All short-lived rows, in memory. */
export class MemoryTransientRows implements TransientRows {
  /** Oldest first. */
  readonly #joins = new Map<string, JoinRequest & Pick<JoinHeader, 'number'>>()
  #lastNumber = 0
  readonly #nonces = new Map<string, Time>()
  /** With the time of the first sweep that saw them. */
  readonly #notices: { readonly event: StoreEvent; seenAt: Time | undefined }[] = []
  /** How many notices were dropped before the first. */
  #dropped = 0

  /** A copy that changes on its own. */
  copy(): MemoryTransientRows {
    const copy = new MemoryTransientRows()
    for (const [key, join] of structuredClone(this.#joins)) copy.#joins.set(key, join)
    for (const [key, until] of this.#nonces) copy.#nonces.set(key, until)
    copy.#notices.push(...structuredClone(this.#notices))
    copy.#lastNumber = this.#lastNumber
    copy.#dropped = this.#dropped
    return copy
  }

  joinsOf(queue: JoinQueue): readonly JoinHeader[] {
    const all = [...this.#joins.values()].filter((join) => queueOf(join) === queue)
    return all.map(({ box, owner: _owner, ...header }) => ({ ...header, size: box.length }))
  }

  joinBox(_queue: JoinQueue, invite: string, agent: AgentId): Uint8Array {
    const join = this.#joins.get(keyOf(invite, agent))
    if (!join) throw new Error(`agent ${agent} has no join request`)
    return join.box
  }

  putJoin(join: JoinRequest): void {
    this.#joins.set(keyOf(join.invite, join.agent), { ...join, number: ++this.#lastNumber })
  }

  dropJoin(invite: string, agent: AgentId): void {
    this.#joins.delete(keyOf(invite, agent))
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
    for (const [key, { until }] of this.#joins) if (until <= now) this.#joins.delete(key)
    for (const [key, until] of this.#nonces) if (until <= now) this.#nonces.delete(key)
    for (const notice of this.#notices) notice.seenAt ??= now
    const kept = this.#notices.findIndex(({ seenAt = now }) => now - seenAt < NOTICES_KEPT_MS)
    const old = kept < 0 ? this.#notices.length : kept
    this.#notices.splice(0, old)
    this.#dropped += old
  }
}

function keyOf(invite: string, agent: AgentId): string {
  return `${invite} ${agent}`
}
