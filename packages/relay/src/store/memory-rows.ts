/** Rows as Maps. Records are changed in place, so there is nothing to write. */
import type { Account, AgentId, ChannelId, Entry, Invite, Position, StoredWelcome, Time } from '../ports.ts'
import { toHex } from '../hex.ts'
import { isActive } from './invites.ts'
import { type Answered, ENTRY_OVERHEAD, type IdKey, type NewChannel, type Rows, type Weight } from './rows.ts'
import { type Channel, noChanges, onRoster } from './state.ts'

interface Kept {
  readonly channel: Channel
  readonly founding: Uint8Array
  /** By index. */
  readonly log: Map<number, { readonly entry: Entry; readonly size: number }>
  readonly ids: Map<string, Answered & { readonly at: Time }>
  readonly welcomes: Map<AgentId, { readonly welcome: StoredWelcome; readonly at: Time }>
}

/** Everything in the memory of the process. */
export class MemoryRows implements Rows {
  readonly #channels = new Map<ChannelId, Kept>()
  readonly #invites = new Map<string, { readonly invite: Invite; readonly endsAt: Time | undefined }>()
  #number = 0

  channel(id: ChannelId): Channel | undefined {
    return this.#channels.get(id)?.channel
  }

  changed(): void {}

  named(account: Account, name: string): ChannelId | undefined {
    return this.#owned(account).find((channel) => channel.name === name)?.id
  }

  countChannels(account: Account): number {
    return this.#owned(account).length
  }

  channelsOf(agent: AgentId): ChannelId[] {
    return this.#all()
      .filter(({ members }) => onRoster(members.get(agent)))
      .map(({ id }) => id)
  }

  addChannel(fields: NewChannel, welcome: Uint8Array): Channel {
    const channel: Channel = {
      ...fields,
      number: ++this.#number,
      base: fields.last,
      bytes: 0,
      oldestAt: undefined,
      guestDay: 0,
      guestCount: 0,
      due: undefined,
      members: new Map(),
      senders: new Map(),
      slots: new Map(),
      acked: 0,
      recent: [],
      changes: noChanges(),
    }
    const kept: Kept = { channel, founding: welcome, log: new Map(), ids: new Map(), welcomes: new Map() }
    this.#channels.set(channel.id, kept)
    return channel
  }

  founding(channel: Channel): Uint8Array {
    return this.#kept(channel).founding
  }

  dropChannel({ id }: Channel): void {
    this.#channels.delete(id)
    for (const { invite } of this.#invites.values()) if (invite.channel === id) this.#invites.delete(invite.id)
  }

  dueChannels(now: Time, limit: number): ChannelId[] {
    return this.#all()
      .filter(({ due }) => due !== undefined && due <= now)
      .slice(0, limit)
      .map(({ id }) => id)
  }

  addEntry(channel: Channel, entry: Entry, body: Uint8Array): void {
    this.#kept(channel).log.set(entry.index, { entry, size: body.length + ENTRY_OVERHEAD })
  }

  *entries(channel: Channel, after: number, through: number): Iterable<Entry> {
    const { log } = this.#kept(channel)
    for (let index = Math.max(after, channel.base.index) + 1; index <= through; index++) {
      const kept = log.get(index)
      if (kept) yield kept.entry
    }
  }

  *weights(channel: Channel, after: number, through: number): Iterable<Weight> {
    const { log } = this.#kept(channel)
    for (const { index, sender, at } of this.entries(channel, after, through)) {
      yield { index, sender, at, size: log.get(index)?.size ?? 0 }
    }
  }

  position(channel: Channel, index: number): Position | undefined {
    const entry = this.#kept(channel).log.get(index)?.entry
    return entry && { index, hash: entry.hash, slot: entry.kind === 'commit' ? entry.slot + 1 : entry.slot }
  }

  cut(channel: Channel, through: number): void {
    const { log } = this.#kept(channel)
    for (let index = channel.base.index + 1; index <= through; index++) log.delete(index)
  }

  findId(channel: Channel, key: IdKey, since: Time): Answered | undefined {
    const answer = this.#kept(channel).ids.get(idText(key))
    return answer && answer.at > since ? { index: answer.index, head: answer.head } : undefined
  }

  addId(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    const known = this.findId(channel, key, since)
    if (!known) this.#kept(channel).ids.set(idText(key), answer)
    return known
  }

  expireIds(since: Time): void {
    for (const { ids } of this.#channels.values()) {
      for (const [id, { at }] of ids) if (at <= since) ids.delete(id)
    }
  }

  putWelcome(channel: Channel, welcome: StoredWelcome, at: Time): void {
    this.#kept(channel).welcomes.set(welcome.agent, { welcome, at })
  }

  dropWelcome(channel: Channel, agent: AgentId): void {
    this.#kept(channel).welcomes.delete(agent)
  }

  welcomesOf(agent: AgentId): Iterable<StoredWelcome> {
    const found = [...this.#channels.values()].flatMap(({ welcomes }) => welcomes.get(agent) ?? [])
    return found.sort((a, b) => a.at - b.at).map(({ welcome }) => welcome)
  }

  expireWelcomes(since: Time): void {
    for (const { welcomes } of this.#channels.values()) {
      for (const [agent, { at }] of welcomes) if (at <= since) welcomes.delete(agent)
    }
  }

  invite(id: string): Invite | undefined {
    return this.#invites.get(id)?.invite
  }

  putInvite(invite: Invite): void {
    this.#invites.set(invite.id, { invite, endsAt: invite.revoked ? undefined : invite.expiresAt })
  }

  countActiveInvites({ id }: Channel, now: Time): number {
    return [...this.#invites.values()].filter(({ invite }) => invite.channel === id && isActive(invite, now)).length
  }

  expireInvites(now: Time, since: Time): void {
    for (const [id, { invite, endsAt }] of this.#invites) {
      if (endsAt === undefined) this.#invites.set(id, { invite, endsAt: Math.min(now, invite.expiresAt) })
      else if (endsAt <= since) this.#invites.delete(id)
    }
  }

  #all(): Channel[] {
    return [...this.#channels.values()].map(({ channel }) => channel)
  }

  #owned({ id, mode }: Account): Channel[] {
    return this.#all().filter(({ account }) => account.id === id && account.mode === mode)
  }

  #kept({ id }: Channel): Kept {
    const kept = this.#channels.get(id)
    if (!kept) throw new Error(`channel ${id} is gone`)
    return kept
  }
}

function idText({ kind, agent, id }: IdKey): string {
  return `${kind} ${agent} ${toHex(id)}`
}
