/**
 * Channels with their members and senders in SQLite, loaded into memory on demand. Changes that cannot be derived from
 * entries are written once per transaction, just before it commits; the rest later (`late-rows.ts`).
 */
import { fromHex, type Hash, StaticError, toHex } from '@static/protocol'
import type { AgentId, ChannelId, Entry, Head, MemberReceipt, Time } from '../../../ports.ts'
import { type Value, checksum, damaged, intact, sealed } from '../../checksum.ts'
import { weighChannel } from '../../records/channel-weight.ts'
import { senderOf } from '../../ledger/context.ts'
import type { ChannelRows, Glance, NewChannel } from '../../ledger/rows/channels.ts'
import { ENTRY_OVERHEAD } from '../../ledger/rows/log.ts'
import {
  type Channel,
  type ChannelFields,
  emptyChannel,
  findMember,
  lowestCursor,
  newChannel,
  receiptsOf,
  type Member,
  placeMember,
  type Sender,
} from '../../ledger/state.ts'
import { type ChannelRow, FIXED_COLUMNS, channelRow, ownershipColumns, readChannel } from '../../records/channel.ts'
import { isEqual, readEntry, readPosition } from '../../records/entry.ts'
import { type MemberRow, memberRow, readMember } from '../../records/member.ts'
import { type SenderRow, readSender, senderRow } from '../../records/sender.ts'
import { isDamage } from '../damage.ts'
import { entryKey } from './keys.ts'
import { follow, isSameSender, isSameState, type Recoverable, recoverable, stateOf } from './late-rows.ts'
import { type Statements, iterate } from '../statements.ts'

/** Approximate memory limit for channel records, and the approximate size of their parts. */
const CACHED_BYTES = 64 * 1_048_576
const PART_BYTES = { channel: 4096, member: 800, former: 1200, sender: 900, position: 300 }

/** The hash function of the chain, how long entries are kept, and the callback for damage that fails no call. */
interface LogRules {
  readonly hash: Hash
  readonly entryMs: Time
  readonly onDamage: ((error: unknown) => void) | undefined
}

/** The channels of an open database. */
export class SqliteChannelRows implements ChannelRows {
  readonly #statements: Statements
  readonly #rules: LogRules
  readonly #limit: number
  /** In the order of their last use. */
  readonly #channels = new Map<ChannelId, Channel>()
  readonly #weights = new Map<ChannelId, number>()
  #weight = 0
  readonly #changed = new Set<Channel>()
  readonly #recoverable = new Map<ChannelId, Recoverable>()
  /**
   * The channels whose rows are behind their log, and those whose rows this transaction has brought up to date. Damaged
   * channels are in neither, so that they do not accumulate: they fail whenever they are used.
   */
  readonly #late = new Set<ChannelId>()
  readonly #stored = new Set<ChannelId>()
  #isSpoiled = false

  /** `limit` is the approximate memory limit in bytes. */
  constructor(statements: Statements, rules: LogRules, limit: number = CACHED_BYTES) {
    this.#statements = statements
    this.#rules = rules
    this.#limit = limit
  }

  get cached(): { readonly channels: number; readonly bytes: number } {
    return { channels: this.#channels.size, bytes: this.#weight }
  }

  get(id: ChannelId): Channel | undefined {
    const channel = this.#channels.get(id) ?? this.#load(id)
    if (!channel) return undefined
    this.#channels.delete(id)
    this.#channels.set(id, channel)
    return channel
  }

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    const found = this.#find(id, agent)
    if (found) return found
    // Two trees record who is in a channel. If a flipped bit hides a row in one, the other still has it.
    const isKnown = (): boolean => this.#statements.onRoster.get(fromHex(agent), fromHex(id)) !== undefined
    if (!isKnown()) return undefined
    this.flush()
    if (isKnown()) throw damaged(`the rows of agent ${agent} in channel ${id}`)
    return undefined
  }

  heads(ids: readonly ChannelId[]): readonly Head[] {
    return ids.flatMap((channel) => {
      const last = this.#current(channel)?.last
      return last ? { channel, index: last.index, slot: last.slot } : []
    })
  }

  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[] {
    const channel = this.#current(id)
    if (!channel) return []
    if ('members' in channel) return receiptsOf(channel, agent, limit)
    const rows = this.#statements.receipts.all(channel.number, fromHex(agent), limit)
    return (rows as unknown as [Uint8Array, Uint8Array][]).map(([of, receipt]) => ({ agent: toHex(of), receipt }))
  }

  of(agent: AgentId, after: ChannelId | undefined, limit: number): readonly ChannelId[] {
    this.flush()
    const rows = this.#statements.channelsOf.all(fromHex(agent), fromHex(after ?? ''), limit)
    return (rows as unknown as [Uint8Array][]).map(([id]) => toHex(id))
  }

  add(fields: NewChannel, welcome: Uint8Array): Channel {
    const draft = newChannel(0, fields)
    const number = Number(this.#statements.addChannel.run(...sealed(channelRow(draft))).lastInsertRowid)
    this.#statements.addFounding.run(number, ...sealed([welcome]))
    const channel = { ...draft, number }
    this.#keep(channel)
    return channel
  }

  founding({ number }: Channel): Uint8Array {
    return (intact(this.#statements.founding.get(number), 'a founding') as [Uint8Array])[0]
  }

  /** Must be called with the channels whose rows are behind their log, before anything else. */
  behind(ids: readonly ChannelId[]): void {
    for (const id of ids) this.#late.add(id)
  }

  /** Must be called for each new entry, which changes the records of its channel and its sender right after that. */
  logged(channel: Channel, entry: Entry, size: number): void {
    const rows = this.#rowsOf(channel)
    follow(rows, senderOf(rows, entry.sender), entry, size, this.#rules.entryMs)
  }

  changed(channel: Channel): void {
    this.#changed.add(channel)
  }

  /** Deletes a channel except for what `purgeDropped` deletes later. */
  drop(channel: Channel): void {
    const { number, account, bytes } = channel
    const { dropChannel, dropFounding, dropMembers, addDropped } = this.#statements
    for (const statement of [dropChannel, dropFounding, dropMembers]) statement.run(number)
    addDropped.run(number, account.id, account.mode, bytes)
    this.#evict(channel.id)
    this.#changed.delete(channel)
    this.#noteStored(channel.id)
  }

  /** Writes the changed records, except what can be derived from entries. */
  flush(): void {
    for (const channel of this.#changed) this.#write(channel)
    this.#changed.clear()
  }

  /** Writes all changed records, except those of damaged channels. */
  store(): void {
    this.flush()
    for (const id of this.#late) {
      const isUnused = !this.#channels.has(id)
      this.#storeLate(id)
      // Other channels may be in use.
      if (isUnused && this.#weight > this.#limit) this.#evict(id)
    }
  }

  /** Must be called once the transaction has been committed. */
  committed(): void {
    this.#stored.clear()
  }

  /** Called when no record is in use: evicts the least recently used ones if the limit is exceeded. */
  settle(): void {
    if (this.#weight <= this.#limit) return
    this.flush()
    for (const id of this.#channels.keys()) {
      if (this.#weight <= this.#limit || this.#channels.size === 1) return
      if (this.#late.has(id)) this.#storeLate(id)
      this.#evict(id)
    }
  }

  /**
   * Forgets everything, because the transaction was rolled back. Earlier entries will be replayed. Returns whether it
   * failed only because of a channel that was behind, which is left out from now on.
   */
  clear(): boolean {
    const isSpoiled = this.#isSpoiled
    this.#isSpoiled = false
    this.#channels.clear()
    this.#weights.clear()
    this.#weight = 0
    this.#changed.clear()
    this.#recoverable.clear()
    for (const id of this.#stored) this.#late.add(id)
    this.#stored.clear()
    return isSpoiled
  }

  #keep(channel: Channel): void {
    this.#channels.set(channel.id, channel)
    this.#recoverable.set(channel.id, recoverable(channel))
    this.#reweigh(channel)
  }

  #rowsOf({ id }: Channel): Recoverable {
    const rows = this.#recoverable.get(id)
    if (!rows) throw new Error(`channel ${id} is used after it was evicted`)
    return rows
  }

  /** Writes the rows of a channel that is behind. Skips a damaged one, so that the others can continue. */
  #storeLate(id: ChannelId): void {
    try {
      const channel = this.#channels.get(id) ?? this.#load(id)
      if (channel) this.#writeLate(channel)
      this.#noteStored(id)
    } catch (error) {
      if (!isDamage(error)) throw error
      this.#late.delete(id)
      this.#rules.onDamage?.(error)
      if (error instanceof StaticError) return
      // SQLite refuses to write in a transaction that met a page it cannot read.
      this.#isSpoiled = true
      throw error
    }
  }

  #find(id: ChannelId, agent: AgentId): Glance | undefined {
    const channel = this.#current(id)
    if (!channel) return undefined
    if ('members' in channel) {
      const known = findMember(channel, agent)
      return known && { channel, member: known, sender: channel.senders.get(agent) }
    }
    const key = [channel.number, fromHex(agent)] as const
    const member = this.#statements.member.get(...key)
    const sender = this.#statements.sender.get(...key)
    return member && { channel, member: toMember(member), sender: sender && toSender(sender) }
  }

  /** A channel's current state: only its row, unless the channel is in memory or the row is behind. */
  #current(id: ChannelId): Channel | ChannelFields | undefined {
    const cached = this.#channels.get(id)
    if (cached) return cached
    const fields = this.#fields(id)
    if (!fields) return undefined
    const { number, last } = fields
    return this.#statements.isLate.get(entryKey(number, last.index), entryKey(number + 1, 0)) ? this.get(id) : fields
  }

  #noteStored(id: ChannelId): void {
    if (this.#late.delete(id)) this.#stored.add(id)
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
    const behind = this.#follow(channel)
    channel.acked = lowestCursor(channel)
    this.#keep(channel)
    if (behind.size === 0) return channel
    const { late } = this.#rowsOf(channel)
    late.channel = true
    for (const agent of behind) late.senders.add(agent)
    this.#late.add(id)
    return channel
  }

  /** Replays the entries that came after the rows of a channel were written. Returns their senders. */
  #follow(channel: Channel): ReadonlySet<AgentId> {
    const { number, last } = channel
    const { hash, entryMs } = this.#rules
    const senders = new Set<AgentId>()
    const rows = iterate(this.#statements.entries, entryKey(number, last.index), entryKey(number + 1, 0) - 1n)
    for (const row of rows) {
      const { entry, size } = readEntry(hash, channel.last, row)
      follow(channel, senderOf(channel, entry.sender), entry, size + ENTRY_OVERHEAD, entryMs)
      senders.add(entry.sender)
    }
    return senders
  }

  #evict(id: ChannelId): void {
    this.#channels.delete(id)
    this.#recoverable.delete(id)
    this.#weight -= this.#weights.get(id) ?? 0
    this.#weights.delete(id)
  }

  #reweigh(channel: Channel): void {
    const weight = weighChannel(channel, PART_BYTES)
    this.#weight += weight - (this.#weights.get(channel.id) ?? 0)
    this.#weights.set(channel.id, weight)
  }

  #write(channel: Channel): void {
    const { number, id, changes } = channel
    const statements = this.#statements
    for (const agent of changes.members) {
      const member = findMember(channel, agent)
      if (member) statements.saveMember.run(number, ...sealed(memberRow(id, member)))
      else statements.dropMember.run(number, fromHex(agent))
    }
    for (const agent of changes.senders) this.#writeSender(channel, agent)
    if (changes.ownedBefore) {
      statements.saveOwnership.run(...ownershipColumns(channel), number)
    }
    if (changes.channel) this.#writeChannel(channel)
    changes.channel = false
    changes.ownedBefore = undefined
    changes.members.clear()
    changes.senders.clear()
    this.#reweigh(channel)
  }

  #writeSender(channel: Channel, agent: AgentId): void {
    const { senders, late } = this.#rowsOf(channel)
    const sender = channel.senders.get(agent)
    const known = senders.get(agent)
    if (sender && known && isSameSender(sender, known)) {
      late.senders.add(agent)
      this.#late.add(channel.id)
    } else if (sender) {
      this.#saveSender(channel, sender)
    } else {
      this.#statements.dropSender.run(channel.number, fromHex(agent))
      senders.delete(agent)
      late.senders.delete(agent)
    }
  }

  #writeChannel(channel: Channel): void {
    const rows = this.#rowsOf(channel)
    rows.late.channel = true
    if (isSameState(channel, rows) && !channel.changes.ownedBefore) this.#late.add(channel.id)
    else this.#writeLate(channel)
  }

  /**
   * Writes the rows of a channel that are behind. Senders are written first, so that they are never behind the
   * channel's own row.
   */
  #writeLate(channel: Channel): void {
    const rows = this.#rowsOf(channel)
    const { late } = rows
    for (const agent of late.senders) {
      const sender = channel.senders.get(agent)
      if (sender) this.#saveSender(channel, sender)
    }
    if (!late.channel) return
    const row = channelRow(channel)
    this.#statements.saveChannel.run(...row.slice(FIXED_COLUMNS), checksum(row), channel.number)
    Object.assign(rows, stateOf(channel))
    late.channel = false
  }

  #saveSender(channel: Channel, sender: Sender): void {
    const { senders, late } = this.#rowsOf(channel)
    this.#statements.saveSender.run(channel.number, ...sealed(senderRow(sender)))
    senders.set(sender.agent, { ...sender })
    late.senders.delete(sender.agent)
  }
}

function toMember(row: unknown): Member {
  return readMember(intact(row, 'a member') as MemberRow)
}

function toSender(row: unknown): Sender {
  return readSender(intact(row, 'a sender') as SenderRow)
}
