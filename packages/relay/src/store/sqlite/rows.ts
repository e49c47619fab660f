/** Rows in SQLite. Records of channels are kept in memory and written once per transaction, just before its end. */
import type { DatabaseSync } from 'node:sqlite'
import { fromHex, type Hash, toHex } from '@static/protocol'
import type { Account, AgentId, ChannelId, Entry, Invite, Position, StoredWelcome, Time } from '../../ports.ts'
import { type Value, checksum, damaged, intact } from './checksum.ts'
import {
  type Answered,
  ENTRY_OVERHEAD,
  type Glance,
  type IdKey,
  type NewChannel,
  type NewWelcome,
  type Rows,
  type Weight,
} from '../ledger/rows.ts'
import {
  type ChannelRow,
  FIXED_COLUMNS,
  type InviteRow,
  KINDS,
  type MemberRow,
  type SenderRow,
  channelRow,
  fromJson,
  headerRow,
  inviteRow,
  isEqual,
  memberRow,
  readChannel,
  readEntry,
  readInvite,
  readMember,
  readPosition,
  readSender,
  senderRow,
  toJson,
} from './records.ts'
import { type Statements, prepareStatements } from './statements.ts'
import {
  type Channel,
  type ChannelFields,
  type Member,
  type Sender,
  type Slot,
  type Turn,
  emptyChannel,
  findMember,
  lowestCursor,
  newChannel,
  placeMember,
} from '../ledger/state.ts'

/** What the records of channels may take in memory, roughly; and what the parts of one take. */
const CACHED_BYTES = 64 * 1_048_576
const CHANNEL_BYTES = 4096
const MEMBER_BYTES = 800
const FORMER_BYTES = 1200
const SENDER_BYTES = 600
const POSITION_BYTES = 300
/** What one sweep looks at and deletes at most, beside entries of living channels. */
const SWEEP_ROWS = 2048
/** How long ids may stay beyond their time, so that a round through all of them finds many. */
const ROUND_PAUSE_MS = 3600_000
const NOTHING: Uint8Array = new Uint8Array()
/** Beyond the key of every id. */
const LAST_ID = channelPrefix(2 ** 48 - 1)
const INDEX_BITS = 36n

/** The channel's number and the index: so the entries of a channel lie in order, and no second tree is needed. */
function entryKey(channel: number, index: number): bigint {
  return (BigInt(channel) << INDEX_BITS) | BigInt(index)
}

/**
 * Eight bytes of the agent id are enough: who finds another key that agrees in them would, with the message id of the
 * other as well, keep only a message of its own from being accepted.
 */
function idKey(channel: number, { kind, agent, id }: IdKey): Uint8Array {
  const key = Buffer.allocUnsafe(15 + id.length)
  key.writeUIntBE(channel, 0, 6)
  key[6] = KINDS.indexOf(kind)
  key.write(agent, 7, 8, 'hex')
  key.set(id, 15)
  return key
}

function channelPrefix(channel: number): Uint8Array {
  const prefix = Buffer.alloc(6)
  prefix.writeUIntBE(channel, 0, 6)
  return prefix
}

/** A row with its checksum. */
function sealed<Row extends readonly Value[]>(row: Row): [...Row, number] {
  return [...row, checksum(row)]
}

function weigh({ members, former, senders, recent }: Channel): number {
  const people = members.size * MEMBER_BYTES + former.size * FORMER_BYTES + senders.size * SENDER_BYTES
  return CHANNEL_BYTES + people + recent.length * POSITION_BYTES
}

/** The rows of an open database. */
export class SqliteRows implements Rows {
  readonly #statements: Statements
  readonly #hash: Hash
  readonly #cachedBytes: number
  /** In the order of their last use. */
  readonly #cache = new Map<ChannelId, Channel>()
  readonly #weights = new Map<ChannelId, number>()
  #weight = 0
  readonly #changed = new Set<Channel>()
  /** A round through the ids: where it stands, the oldest one that was left, and from when on the next one begins. */
  #round = { after: NOTHING, oldest: Infinity, start: 0 }

  constructor(db: DatabaseSync, hash: Hash, cachedBytes: number = CACHED_BYTES) {
    this.#statements = prepareStatements(db)
    this.#hash = hash
    this.#cachedBytes = cachedBytes
  }

  /** How many channels are in memory, and what they take, roughly. */
  get cached(): { readonly channels: number; readonly bytes: number } {
    return { channels: this.#cache.size, bytes: this.#weight }
  }

  /** Writes the changed records. To be called before the transaction ends. */
  flush(): void {
    for (const channel of this.#changed) this.#write(channel)
    this.#changed.clear()
  }

  settle(): void {
    if (this.#weight <= this.#cachedBytes) return
    this.flush()
    for (const id of this.#cache.keys()) {
      if (this.#weight <= this.#cachedBytes || this.#cache.size === 1) return
      this.#drop(id)
    }
  }

  /** Forgets everything in memory: the transaction that it belongs to is undone. */
  forget(): void {
    this.#cache.clear()
    this.#weights.clear()
    this.#weight = 0
    this.#changed.clear()
    this.#round = { after: NOTHING, oldest: Infinity, start: 0 }
  }

  /** Deletes a part of what deleted channels have left. */
  purge(): void {
    const { firstDropped, purgeEntries, purgeIds, forgetDropped } = this.#statements
    const [channel] = (firstDropped.get() as unknown as [number?]) ?? []
    if (channel === undefined) return
    const entries = purgeEntries.run(entryKey(channel, 0), entryKey(channel + 1, 0), SWEEP_ROWS).changes
    const ids = purgeIds.run(channelPrefix(channel), channelPrefix(channel + 1), SWEEP_ROWS).changes
    if (Number(entries) + Number(ids) === 0) forgetDropped.run(channel)
  }

  channel(id: ChannelId): Channel | undefined {
    const channel = this.#cache.get(id) ?? this.#load(id)
    if (!channel) return undefined
    this.#cache.delete(id)
    this.#cache.set(id, channel)
    return channel
  }

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    const cached = this.#cache.get(id)
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

  changed(channel: Channel): void {
    this.#changed.add(channel)
  }

  named({ id, mode }: Account, name: string): ChannelId | undefined {
    const row = this.#statements.named.get(id, mode, name) as unknown as [Uint8Array] | undefined
    return row && toHex(row[0])
  }

  countChannels({ id, mode }: Account): number {
    return (this.#statements.countChannels.get(id, mode) as unknown as [number])[0]
  }

  channelsOf(agent: AgentId, after: ChannelId | undefined, limit: number): ChannelId[] {
    this.flush()
    const rows = this.#statements.channelsOf.all(fromHex(agent), fromHex(after ?? ''), limit)
    return (rows as unknown as [Uint8Array][]).map(([id]) => toHex(id))
  }

  isMember(agent: AgentId): boolean {
    return this.channelsOf(agent, undefined, 1).length > 0
  }

  addChannel(fields: NewChannel, welcome: Uint8Array): Channel {
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

  dropChannel(channel: Channel): void {
    const { dropChannel, dropFounding, dropMembers, dropSenders, dropSlots, dropAllTurns, dropWelcomes } =
      this.#statements
    for (const statement of [
      dropChannel,
      dropFounding,
      dropMembers,
      dropSenders,
      dropSlots,
      dropAllTurns,
      dropWelcomes,
    ]) {
      statement.run(channel.number)
    }
    this.#statements.dropInvites.run(fromHex(channel.id))
    // What may be much goes by and by.
    this.#statements.addDropped.run(channel.number)
    this.#drop(channel.id)
    this.#changed.delete(channel)
  }

  dueChannels(now: Time, limit: number): ChannelId[] {
    this.flush()
    return (this.#statements.dueChannels.all(now, limit) as unknown as [Uint8Array][]).map(([id]) => toHex(id))
  }

  addEntry(channel: Channel, entry: Entry, body: Uint8Array): void {
    const sender = channel.senders.get(entry.sender)?.agentBytes ?? fromHex(entry.sender)
    const header = headerRow(entry, sender)
    const [index, ...columns] = header
    this.#statements.addEntry.run(entryKey(channel.number, index), ...columns, checksum(header), body)
  }

  *entries({ number, id }: Channel, after: Position, through: number): Iterable<Entry> {
    let previous = after
    for (const row of this.#statements.entries.iterate(entryKey(number, after.index), entryKey(number, through))) {
      const { entry, position } = readEntry(this.#hash, previous, row)
      previous = position
      yield entry
    }
    if (previous.index < through) throw damaged(`channel ${id} has no entry ${previous.index + 1}`)
  }

  *weights({ number }: Channel, after: number, through: number): Iterable<Weight> {
    const rows = this.#statements.weights.iterate(entryKey(number, after), entryKey(number, through))
    for (const row of rows) {
      const [index, sender, length, at] = row as unknown as [number, Uint8Array, number, number]
      yield { index, sender: toHex(sender), size: length + ENTRY_OVERHEAD, at }
    }
  }

  position({ number }: Channel, index: number): Position {
    return readPosition(this.#statements.position.get(entryKey(number, index)), index)
  }

  cut({ number }: Channel, through: number): void {
    this.#statements.cut.run(entryKey(number, 0), entryKey(number, through))
  }

  slot({ number }: Channel, slot: number): Slot | undefined {
    const row = this.#statements.slot.get(number, slot)
    return row && toSlot(row)
  }

  putSlot({ number }: Channel, slot: Slot): void {
    this.#statements.putSlot.run(number, ...sealed([slot.slot, slot.position.index, toJson(slot)]))
  }

  dropSlot({ number }: Channel, slot: number): void {
    this.#statements.dropSlot.run(number, slot)
    this.#statements.dropTurns.run(number, slot)
  }

  commits({ number }: Channel): { readonly slot: number; readonly index: number }[] {
    const slots = this.#statements.commits.all(number).map(toSlot)
    return slots.map(({ slot, position }) => ({ slot, index: position.index }))
  }

  turnsOf({ number }: Channel, slot: number): Turn[] {
    const turns = this.#statements.turnsOf.all(number, slot).map(toTurn)
    return turns.filter(({ notice }) => !notice)
  }

  *turnsFrom({ number }: Channel, agent: AgentId, index: number): Iterable<Turn> {
    for (const row of this.#statements.turnsFrom.iterate(number, fromHex(agent), index)) yield toTurn(row)
  }

  putTurn({ number }: Channel, turn: Turn): void {
    const { agent, position, slot } = turn
    this.#statements.putTurn.run(number, ...sealed([fromHex(agent), position.index, slot, toJson(turn)]))
  }

  findId({ number }: Channel, key: IdKey, since: Time): Answered | undefined {
    return this.#answered(idKey(number, key), since)
  }

  addId({ number }: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    const bytes = idKey(number, key)
    const row = sealed([bytes, answer.index, answer.head, answer.at])
    const { changes } = this.#statements.addId.run(...row, since)
    return Number(changes) > 0 ? undefined : this.#answered(bytes, since)
  }

  /** Goes on through all ids in rounds: an index by time would cost every message more than this costs the sweep. */
  expireIds(since: Time): void {
    const { nextIds, oldestId, dropIds } = this.#statements
    const round = this.#round
    if (since < round.start) return
    const [through = LAST_ID] = (nextIds.get(round.after, SWEEP_ROWS - 1) as [Uint8Array] | undefined) ?? []
    dropIds.run(round.after, through, since)
    const [oldest] = oldestId.get(round.after, through) as unknown as [number | null]
    round.oldest = Math.min(round.oldest, oldest ?? Infinity)
    round.after = through
    if (through !== LAST_ID) return
    // Ids that come from now on are younger than `since`.
    const start = Math.min(round.oldest, since) + ROUND_PAUSE_MS
    this.#round = { after: NOTHING, oldest: Infinity, start }
  }

  putWelcome({ number, account }: Channel, { welcome, ...record }: NewWelcome, at: Time): void {
    const place = [number, fromHex(record.agent), account.id, account.mode, at] as const
    this.#statements.putWelcome.run(...place, ...sealed([toJson(record), welcome]))
  }

  dropWelcome({ number }: Channel, agent: AgentId): void {
    this.#statements.dropWelcome.run(number, fromHex(agent))
  }

  countWelcomes({ number, account }: Channel, agent: AgentId): number {
    const row = this.#statements.countWelcomes.get(fromHex(agent), account.id, account.mode, number)
    return (row as unknown as [number])[0]
  }

  *welcomesOf(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }> {
    for (const row of this.#statements.welcomesOf.iterate(fromHex(agent), after)) {
      const [sequence, size] = row as unknown as [number, number]
      yield { sequence, size }
    }
  }

  welcome(sequence: number): StoredWelcome {
    const row = this.#statements.welcome.get(sequence)
    const [record, welcome] = intact(row, `Welcome ${sequence}`) as [string, Uint8Array]
    return { ...(fromJson(record) as Omit<NewWelcome, 'welcome'>), welcome, sequence }
  }

  expireWelcomes(since: Time): void {
    this.#statements.expireWelcomes.run(since)
  }

  invite(id: string): Invite | undefined {
    const row = this.#statements.invite.get(id)
    return row && readInvite(intact(row, `invite ${id}`) as InviteRow)
  }

  putInvite(invite: Invite): void {
    this.#statements.putInvite.run(...sealed(inviteRow(invite)), invite.revoked ? null : invite.expiresAt)
  }

  countActiveInvites({ id }: Channel, now: Time): number {
    return (this.#statements.countActiveInvites.get(fromHex(id), now) as unknown as [number])[0]
  }

  expireInvites(now: Time, since: Time): void {
    this.#statements.expireInvites.run(since)
    this.#statements.endInvites.run(now)
  }

  #answered(key: Uint8Array, since: Time): Answered | undefined {
    const row = this.#statements.findId.get(key)
    if (!row) return undefined
    const [, index, head, at] = intact(row, 'a message id') as [Uint8Array, number, number, number]
    return at > since ? { index, head } : undefined
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
    const { members, senders } = this.#statements
    const channel = emptyChannel(fields)
    const { number, last, base } = channel
    const end = last.index > base.index ? this.position(channel, last.index) : base
    if (end.index !== last.index || end.slot !== last.slot || !isEqual(end.hash, last.hash)) {
      throw damaged(`the end of channel ${id}`)
    }
    for (const row of members.all(number)) placeMember(channel, toMember(row))
    for (const sender of senders.all(number).map(toSender)) channel.senders.set(sender.agent, sender)
    channel.acked = lowestCursor(channel)
    this.#keep(channel)
    return channel
  }

  #keep(channel: Channel): void {
    this.#cache.set(channel.id, channel)
    this.#reweigh(channel)
  }

  #drop(id: ChannelId): void {
    this.#cache.delete(id)
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

function toSlot(row: unknown): Slot {
  return fromJson((intact(row, 'a slot') as [number, number, string])[2]) as Slot
}

function toTurn(row: unknown): Turn {
  return fromJson((intact(row, 'a turn') as [Uint8Array, number, number, string])[3]) as Turn
}
