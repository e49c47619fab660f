/** Invites as a map. */
import type { Channel, ChannelId, Invite, InviteRows, Time } from '@static/relay/internal'

/** All invites, in memory. */
export class MemoryInviteRows implements InviteRows {
  /** In the order of their last change. */
  readonly #invites = new Map<string, Invite>()

  /** A copy that changes on its own. */
  copy(): MemoryInviteRows {
    const copy = new MemoryInviteRows()
    for (const invite of structuredClone([...this.#invites.values()])) copy.put(invite)
    return copy
  }

  get(id: string): Invite | undefined {
    return this.#invites.get(id)
  }

  put(invite: Invite): void {
    this.#invites.delete(invite.id)
    this.#invites.set(invite.id, invite)
  }

  countActive({ id }: Channel, now: Time): number {
    return this.#of(id).filter((invite) => isActive(invite, now)).length
  }

  usedUp(channel: ChannelId): readonly string[] {
    const found = this.#of(channel).filter(({ uses, maxUses }) => uses >= maxUses)
    return found.map(({ id }) => id)
  }

  dropEnded({ id }: Channel, now: Time, kept: number): readonly string[] {
    const invites = this.#of(id)
    const ended = invites.filter((invite) => !isActive(invite, now))
    const dropped = ended.slice(0, Math.max(0, invites.length - kept)).map((invite) => invite.id)
    for (const each of dropped) this.#invites.delete(each)
    return dropped
  }

  dropAll({ id: channel }: Pick<Channel, 'id'>): void {
    for (const { id } of this.#of(channel)) this.#invites.delete(id)
  }

  expire(since: Time, limit: number): void {
    const expired = [...this.#invites.values()].filter(({ expiresAt }) => expiresAt <= since)
    const order = expired.toSorted((one, other) => one.expiresAt - other.expiresAt)
    for (const { id } of order.slice(0, limit)) this.#invites.delete(id)
  }

  #of(channel: ChannelId): Invite[] {
    return [...this.#invites.values()].filter((invite) => invite.channel === channel)
  }
}

/** Whether agents may still join with an invite. */
function isActive(invite: Invite, now: Time): boolean {
  return !invite.revoked && invite.expiresAt > now && invite.uses < invite.maxUses
}
