/** Join requests as a map. */
import {
  type AgentId,
  type ChannelId,
  type JoinHeader,
  type JoinKey,
  type JoinPlace,
  type JoinQueue,
  type JoinRequest,
  type JoinRows,
  type JoinWeight,
  type Time,
  queueOf,
} from '@static/relay/internal'

interface Kept {
  readonly header: JoinHeader
  readonly box: Uint8Array
}

/** All join requests, in memory. */
export class MemoryJoinRows implements JoinRows {
  /** Oldest first. */
  readonly #joins = new Map<string, Kept>()
  #lastNumber = 0

  /** A copy that changes on its own. */
  copy(): MemoryJoinRows {
    const copy = new MemoryJoinRows()
    for (const [key, join] of structuredClone(this.#joins)) copy.#joins.set(key, join)
    copy.#lastNumber = this.#lastNumber
    return copy
  }

  get(invite: string, agent: AgentId): JoinHeader | undefined {
    return this.#joins.get(keyOf({ invite, agent }))?.header
  }

  after(place: JoinPlace, after: number, limit: number): readonly JoinHeader[] {
    return this.#in(place)
      .filter(({ number }) => number > after)
      .slice(0, limit)
  }

  numbers(place: JoinPlace, through: number): readonly number[] {
    const numbers = this.#in(place).map(({ number }) => number)
    return numbers.filter((number) => number <= through)
  }

  boxes(joins: readonly JoinHeader[]): readonly Uint8Array[] {
    return joins.map((join) => {
      const kept = this.#joins.get(keyOf(join))
      if (!kept) throw new Error(`agent ${join.agent} has no join request`)
      return kept.box
    })
  }

  weight(queue: JoinQueue, now: Time, invite?: string): JoinWeight {
    const isMeant = (join: JoinHeader): boolean => invite === undefined || join.invite === invite
    const live = this.#headers((join) => join.queue === queue && join.until > now && isMeant(join))
    return { count: live.length, bytes: live.reduce((sum, { size }) => sum + size, 0) }
  }

  weights(queue: JoinQueue, now: Time): ReadonlyMap<string, JoinWeight> {
    const live = this.#headers((join) => join.queue === queue && join.until > now)
    return new Map(live.map(({ invite }) => [invite, this.weight(queue, now, invite)]))
  }

  beyond(queue: JoinQueue, kept: number): readonly JoinKey[] {
    const all = this.#headers((join) => join.queue === queue)
    return all.slice(0, Math.max(0, all.length - kept))
  }

  forInvites(queue: JoinQueue, invites: readonly string[]): readonly JoinKey[] {
    return this.#headers((join) => join.queue === queue && invites.includes(join.invite))
  }

  ofAgent(channel: ChannelId, agent: AgentId): readonly JoinKey[] {
    return this.#headers((join) => join.channel === channel && join.agent === agent)
  }

  inChannel(channel: ChannelId): readonly JoinKey[] {
    return this.#headers((join) => join.channel === channel)
  }

  put(join: JoinRequest): void {
    const { invite, channel, agent, until, box } = join
    const number = ++this.#lastNumber
    const header = { number, queue: queueOf(join), invite, channel, agent, until, size: box.length }
    this.#joins.set(keyOf(join), { header, box })
  }

  drop(key: JoinKey): void {
    this.#joins.delete(keyOf(key))
  }

  /** Deletes expired requests. */
  expire(now: Time): void {
    for (const [key, { header }] of this.#joins) if (header.until <= now) this.#joins.delete(key)
  }

  #in({ queue, channel, now }: JoinPlace): readonly JoinHeader[] {
    return this.#headers((join) => join.queue === queue && join.channel === channel && join.until > now)
  }

  #headers(isMeant: (join: JoinHeader) => boolean): readonly JoinHeader[] {
    return [...this.#joins.values()].map(({ header }) => header).filter(isMeant)
  }
}

function keyOf({ invite, agent }: JoinKey): string {
  return `${invite} ${agent}`
}
