/** Channel records in memory: loaded on demand, written once per transaction, just before it commits. */
import { fromHex } from '@static/protocol'
import type { AgentId, ChannelId, Position } from '../../ports.ts'
import type { Glance } from '../ledger/rows.ts'
import {
  type Channel,
  type ChannelFields,
  emptyChannel,
  findMember,
  lowestCursor,
  type Member,
  placeMember,
  type Sender,
} from '../ledger/state.ts'
import { type Value, checksum, damaged, intact, sealed } from './checksum.ts'
import { entryKey } from './keys.ts'
import {
  type ChannelRow,
  FIXED_COLUMNS,
  type MemberRow,
  type SenderRow,
  channelRow,
  isEqual,
  memberRow,
  readChannel,
  readMember,
  readPosition,
  readSender,
  senderRow,
} from './records.ts'
import type { Statements } from './statements.ts'

/** Approximate memory limit for channel records, and the approximate size of their parts. */
const CACHED_BYTES = 64 * 1_048_576
const CHANNEL_BYTES = 4096
const MEMBER_BYTES = 800
const FORMER_BYTES = 1200
const SENDER_BYTES = 600
const POSITION_BYTES = 300

function weigh({ members, former, senders, recent }: Channel): number {
  const people = members.size * MEMBER_BYTES + former.size * FORMER_BYTES + senders.size * SENDER_BYTES
  return CHANNEL_BYTES + people + recent.length * POSITION_BYTES
}

/** The channels of a database that are in memory. */
export class ChannelCache {
  readonly #statements: Statements
  readonly #limit: number
  /** In the order of their last use. */
  readonly #channels = new Map<ChannelId, Channel>()
  readonly #weights = new Map<ChannelId, number>()
  #weight = 0
  readonly #changed = new Set<Channel>()

  /** `limit` is the approximate memory limit in bytes. */
  constructor(statements: Statements, limit: number = CACHED_BYTES) {
    this.#statements = statements
    this.#limit = limit
  }

  /** Number of cached channels and their approximate size. */
  get size(): { readonly channels: number; readonly bytes: number } {
    return { channels: this.#channels.size, bytes: this.#weight }
  }

  get(id: ChannelId): Channel | undefined {
    const channel = this.#channels.get(id) ?? this.#load(id)
    if (!channel) return undefined
    this.#channels.delete(id)
    this.#channels.set(id, channel)
    return channel
  }

  /** One agent in a channel, without loading the rest of it. */
  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    const cached = this.#channels.get(id)
    if (cached) {
      const known = findMember(cached, agent)
      return known && { channel: cached, member: known, sender: cached.senders.get(agent) }
    }
    const channel = this.#fields(id)
    if (!channel) return undefined
    const key = [channel.number, fromHex(agent)] as const
    const member = this.#statements.member.get(...key)
    const sender = this.#statements.sender.get(...key)
    return member && { channel, member: toMember(member), sender: sender && toSender(sender) }
  }

  /** Where the log of a channel ends, without loading the rest of it. */
  last(id: ChannelId): Position | undefined {
    return (this.#channels.get(id) ?? this.#fields(id))?.last
  }

  /** Adds a channel that has just been stored. */
  add(channel: Channel): void {
    this.#channels.set(channel.id, channel)
    this.#reweigh(channel)
  }

  /** Must be called after a change to a channel's records that `changes` names. */
  changed(channel: Channel): void {
    this.#changed.add(channel)
  }

  /** Forgets a deleted channel. */
  drop(channel: Channel): void {
    this.#evict(channel.id)
    this.#changed.delete(channel)
  }

  /** Writes the changed records. */
  flush(): void {
    for (const channel of this.#changed) this.#write(channel)
    this.#changed.clear()
  }

  /** Called when no record is in use: evicts the least recently used ones if the limit is exceeded. */
  settle(): void {
    if (this.#weight <= this.#limit) return
    this.flush()
    for (const id of this.#channels.keys()) {
      if (this.#weight <= this.#limit || this.#channels.size === 1) return
      this.#evict(id)
    }
  }

  /** Forgets everything, including unwritten changes. */
  clear(): void {
    this.#channels.clear()
    this.#weights.clear()
    this.#weight = 0
    this.#changed.clear()
  }

  #fields(id: ChannelId): ChannelFields | undefined {
    const row = this.#statements.channel.get(fromHex(id)) as unknown as [number, ...Value[]] | undefined
    if (!row) return undefined
    const [number, ...rest] = row
    return readChannel(number, intact(rest, `channel ${id}`) as ChannelRow)
  }

  #load(id: ChannelId): Channel | undefined {
    const fields = this.#fields(id)
    if (!fields) return undefined
    const { members, senders, position } = this.#statements
    const channel = emptyChannel(fields)
    const { number, last, base } = channel
    const stored = last.index > base.index
    const end = stored ? readPosition(position.get(entryKey(number, last.index)), last.index) : base
    if (end.index !== last.index || end.slot !== last.slot || !isEqual(end.hash, last.hash)) {
      throw damaged(`the end of channel ${id}`)
    }
    for (const row of members.all(number)) placeMember(channel, toMember(row))
    for (const sender of senders.all(number).map(toSender)) channel.senders.set(sender.agent, sender)
    channel.acked = lowestCursor(channel)
    this.add(channel)
    return channel
  }

  #evict(id: ChannelId): void {
    this.#channels.delete(id)
    this.#weight -= this.#weights.get(id) ?? 0
    this.#weights.delete(id)
  }

  #reweigh(channel: Channel): void {
    const weight = weigh(channel)
    this.#weight += weight - (this.#weights.get(channel.id) ?? 0)
    this.#weights.set(channel.id, weight)
  }

  #write(channel: Channel): void {
    const { number, id, changes, senders } = channel
    const statements = this.#statements
    if (changes.channel) {
      const row = channelRow(channel)
      statements.saveChannel.run(...row.slice(FIXED_COLUMNS), checksum(row), number)
    }
    for (const agent of changes.members) {
      const member = findMember(channel, agent)
      if (member) statements.saveMember.run(number, ...sealed(memberRow(id, member)))
      else statements.dropMember.run(number, fromHex(agent))
    }
    for (const agent of changes.senders) {
      const sender = senders.get(agent)
      if (sender) statements.saveSender.run(number, ...sealed(senderRow(sender)))
      else statements.dropSender.run(number, fromHex(agent))
    }
    changes.channel = false
    changes.members.clear()
    changes.senders.clear()
    this.#reweigh(channel)
  }
}

function toMember(row: unknown): Member {
  return readMember(intact(row, 'a member') as MemberRow)
}

function toSender(row: unknown): Sender {
  return readSender(intact(row, 'a sender') as SenderRow)
}
