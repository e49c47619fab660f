/** Rows as maps. Records are changed in place, so nothing needs to be written. */
import { toHex } from '@static/protocol'
import {
  type Account,
  type AccountRecord,
  type AgentId,
  type Answered,
  type Behind,
  type Channel,
  type ChannelId,
  type DroppedWelcome,
  ENTRY_OVERHEAD,
  type Entry,
  findMember,
  type Glance,
  type Head,
  type IdKey,
  type MemberReceipt,
  type NewChannel,
  newAccount,
  newChannel,
  type NewWelcome,
  type Owned,
  onRoster,
  type Position,
  receiptsOf,
  type Rows,
  type Slot,
  type StoredWelcome,
  type Time,
  type Turn,
  type Weight,
} from '@static/relay/internal'
import { MemoryInviteRows } from './relay-memory-invites.ts'
import { MemoryTransientRows } from './relay-memory-transient.ts'

interface Kept {
  readonly channel: Channel
  readonly founding: Uint8Array
  /** By index. */
  readonly log: Map<number, { readonly entry: Entry; readonly size: number }>
  readonly ids: Map<string, Answered & { readonly at: Time }>
  readonly welcomes: Map<AgentId, { readonly welcome: StoredWelcome; readonly shares: boolean; readonly at: Time }>
  /** By the index of the commit. */
  readonly groupInfos: Map<number, Uint8Array>
  /** By slot, in order. */
  readonly slots: Map<number, Slot>
  /** In the order of the log. */
  turns: Turn[]
}

/** All rows, in memory. */
export class MemoryRows implements Rows {
  readonly invites: MemoryInviteRows
  readonly transient: MemoryTransientRows
  readonly #channels = new Map<ChannelId, Kept>()
  readonly #accounts = new Map<string, AccountRecord>()
  readonly #dropped: Pick<Channel, 'account' | 'bytes'>[] = []
  #number = 0
  #sequence = 0

  constructor(
    invites: MemoryInviteRows = new MemoryInviteRows(),
    transient: MemoryTransientRows = new MemoryTransientRows(),
  ) {
    this.invites = invites
    this.transient = transient
  }

  /** A copy that changes on its own. */
  copy(): MemoryRows {
    const copy = new MemoryRows(this.invites.copy(), this.transient.copy())
    for (const [id, kept] of structuredClone(this.#channels)) copy.#channels.set(id, kept)
    for (const [key, account] of structuredClone(this.#accounts)) copy.#accounts.set(key, account)
    copy.#dropped.push(...structuredClone(this.#dropped))
    copy.#number = this.#number
    copy.#sequence = this.#sequence
    return copy
  }

  channel(id: ChannelId): Channel | undefined {
    return this.#channels.get(id)?.channel
  }

  settle(): void {}

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    const channel = this.channel(id)
    const member = channel && findMember(channel, agent)
    return member && { channel, member, sender: channel.senders.get(agent) }
  }

  heads(ids: readonly ChannelId[]): readonly Head[] {
    return ids.flatMap((channel) => {
      const last = this.channel(channel)?.last
      return last ? { channel, index: last.index, slot: last.slot } : []
    })
  }

  changed(): void {}

  account(account: Account): AccountRecord {
    const key = `${account.mode} ${account.id}`
    const record = this.#accounts.get(key) ?? newAccount(account)
    this.#accounts.set(key, record)
    return record
  }

  putAllotment(): void {}

  named(account: Account, name: string): ChannelId | undefined {
    return this.#owned(account).find((channel) => channel.name === name)?.id
  }

  countChannels(account: Account): number {
    return this.#owned(account).length
  }

  owned(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] } {
    const all = this.#all()
      .filter((channel) => channel.account.id === account)
      .map(({ number, id, name, owner, senders, last, account: { mode } }) => {
        const logBytes = [...senders.values()].reduce((sum, { bytes }) => sum + bytes, 0)
        return { number, id, name, owner, logBytes, mode, lastIndex: last.index }
      })
      .sort((one, other) => (`${one.mode} ${one.name}` < `${other.mode} ${other.name}` ? -1 : 1))
    return { total: all.length, channels: all.slice(skip, skip + limit) }
  }

  furthestBehind({ id }: Pick<Owned, 'id'>, limit: number): Behind {
    const roster = [...(this.channel(id)?.members.values() ?? [])].filter(onRoster)
    const members = roster
      .map(({ agent, cursor }) => ({ agent, cursor: cursor.index }))
      .sort((one, other) => one.cursor - other.cursor || (one.agent < other.agent ? -1 : 1))
    return { count: members.length, members: members.slice(0, limit) }
  }

  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[] {
    const channel = this.channel(id)
    return channel ? receiptsOf(channel, agent, limit) : []
  }

  channelsOf(agent: AgentId, after: ChannelId | undefined, limit: number): ChannelId[] {
    return this.#all()
      .filter(({ id, members }) => onRoster(members.get(agent)) && (after === undefined || id > after))
      .map(({ id }) => id)
      .sort()
      .slice(0, limit)
  }

  isMember(agent: AgentId): boolean {
    return this.channelsOf(agent, undefined, 1).length > 0
  }

  addChannel(fields: NewChannel, welcome: Uint8Array): Channel {
    const channel = newChannel(++this.#number, fields)
    this.#channels.set(channel.id, {
      channel,
      founding: welcome,
      log: new Map(),
      ids: new Map(),
      welcomes: new Map(),
      groupInfos: new Map(),
      slots: new Map(),
      turns: [],
    })
    return channel
  }

  founding(channel: Channel): Uint8Array {
    return this.#kept(channel).founding
  }

  dropChannel({ id, account, bytes }: Channel): void {
    this.#dropped.push({ account, bytes })
    this.#channels.delete(id)
    this.invites.dropChannel(id)
  }

  purge(): void {
    for (const { account, bytes } of this.#dropped.splice(0)) this.account(account).bytes -= bytes
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

  *entries(channel: Channel, { index: after }: Position, through: number): Iterable<Entry> {
    const { log } = this.#kept(channel)
    for (let index = after + 1; index <= through; index++) {
      const kept = log.get(index)
      if (kept) yield kept.entry
    }
  }

  *weights(channel: Channel, after: number, through: number): Iterable<Weight> {
    const { log } = this.#kept(channel)
    for (let index = Math.max(after, channel.base.index) + 1; index <= through; index++) {
      const kept = log.get(index)
      if (kept) yield { index, sender: kept.entry.sender, at: kept.entry.at, size: kept.size }
    }
  }

  position(channel: Channel, index: number): Position {
    const entry = this.#kept(channel).log.get(index)?.entry
    if (!entry) throw new Error(`channel ${channel.id} has no entry ${index}`)
    return { index, hash: entry.hash, slot: entry.kind === 'commit' ? entry.slot + 1 : entry.slot }
  }

  cut(channel: Channel, through: number): void {
    const { log } = this.#kept(channel)
    for (let index = channel.base.index + 1; index <= through; index++) log.delete(index)
  }

  slot(channel: Channel, slot: number): Slot | undefined {
    return this.#kept(channel).slots.get(slot)
  }

  putSlot(channel: Channel, slot: Slot): void {
    this.#kept(channel).slots.set(slot.slot, slot)
  }

  dropSlot(channel: Channel, slot: number): { readonly slots: number; readonly turns: number } {
    const slots = this.#kept(channel).slots.delete(slot) ? 1 : 0
    return { slots, turns: this.dropTurns(channel, slot) }
  }

  commitAfter(channel: Channel, index: number): number | undefined {
    for (const { position } of this.#kept(channel).slots.values()) if (position.index > index) return position.index
    return undefined
  }

  turnsOf(channel: Channel, slot: number): Turn[] {
    return this.#kept(channel)
      .turns.filter((turn) => turn.slot === slot && !turn.notice)
      .sort((one, other) => (one.agent < other.agent ? -1 : 1))
  }

  turnsFrom(channel: Channel, agent: AgentId, index: number): Turn[] {
    return this.#kept(channel).turns.filter(
      (turn) => turn.agent === agent && turn.position.index >= index && turn.slot >= channel.settled,
    )
  }

  putTurn(channel: Channel, turn: Turn): void {
    const { turns } = this.#kept(channel)
    const known = turns.findIndex(
      ({ agent, position }) => agent === turn.agent && position.index === turn.position.index,
    )
    if (known < 0) turns.push(turn)
    else turns[known] = turn
  }

  dropTurns(channel: Channel, slot: number): number {
    const kept = this.#kept(channel)
    const before = kept.turns.length
    kept.turns = kept.turns.filter((turn) => turn.slot !== slot)
    return before - kept.turns.length
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

  putWelcome(channel: Channel, { shares, ...welcome }: NewWelcome, at: Time): void {
    const stored = { ...welcome, sequence: ++this.#sequence }
    this.#kept(channel).welcomes.set(welcome.agent, { welcome: stored, shares, at })
  }

  dropWelcome(channel: Channel, agent: AgentId): DroppedWelcome | undefined {
    const { welcomes } = this.#kept(channel)
    const waiting = welcomes.get(agent)
    welcomes.delete(agent)
    if (!waiting) return undefined
    const { welcome, shares } = waiting
    return { bytes: welcome.welcome.length, shared: shares ? welcome.position.index : undefined }
  }

  putGroupInfo(channel: Channel, index: number, groupInfo: Uint8Array): void {
    this.#kept(channel).groupInfos.set(index, groupInfo)
  }

  dropGroupInfo(channel: Channel, index: number): number {
    const { welcomes, groupInfos } = this.#kept(channel)
    for (const { welcome, shares } of welcomes.values()) if (shares && welcome.position.index === index) return 0
    const bytes = groupInfos.get(index)?.length ?? 0
    groupInfos.delete(index)
    return bytes
  }

  countWelcomes({ id, account }: Channel, agent: AgentId): number {
    const others = this.#owned(account).filter((channel) => channel.id !== id)
    return others.filter((channel) => this.#kept(channel).welcomes.has(agent)).length
  }

  welcomesOf(agent: AgentId, after: number): { readonly sequence: number; readonly size: number }[] {
    return [...this.#channels.values()]
      .flatMap((kept) => delivered(kept, agent) ?? [])
      .filter(({ sequence }) => sequence > after)
      .sort((one, other) => one.sequence - other.sequence)
      .map(({ sequence, welcome }) => ({ sequence, size: welcome.length }))
  }

  welcome(sequence: number): StoredWelcome {
    for (const kept of this.#channels.values()) {
      for (const { welcome } of kept.welcomes.values()) {
        if (welcome.sequence === sequence) return delivered(kept, welcome.agent) ?? welcome
      }
    }
    throw new Error(`Welcome ${sequence} does not exist`)
  }

  oldWelcomes(since: Time, limit: number): { readonly channel: ChannelId; readonly agent: AgentId }[] {
    return [...this.#channels.values()]
      .flatMap(({ welcomes }) => [...welcomes.values()])
      .filter(({ at }) => at <= since)
      .sort((one, other) => one.at - other.at || one.welcome.sequence - other.welcome.sequence)
      .slice(0, limit)
      .map(({ welcome }) => ({ channel: welcome.channel, agent: welcome.agent }))
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

/** The Welcome that waits for an agent, with what follows it. */
function delivered({ welcomes, groupInfos }: Kept, agent: AgentId): StoredWelcome | undefined {
  const { welcome: stored, shares } = welcomes.get(agent) ?? {}
  if (!stored || shares !== true) return stored
  const groupInfo = groupInfos.get(stored.position.index)
  if (!groupInfo) throw new Error(`commit ${stored.position.index} has no GroupInfo`)
  return { ...stored, welcome: Buffer.concat([stored.welcome, groupInfo]) }
}

function idText({ kind, agent, id }: IdKey): string {
  return `${kind} ${agent} ${toHex(id)}`
}
