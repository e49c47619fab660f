/** Rows in SQLite. Records of channels are kept in memory and written once per transaction, just before its end. */
import type { DatabaseSync } from 'node:sqlite'
import type { Account, AgentId, ChannelId, Entry, Invite, Position, StoredWelcome, Time } from '../ports.ts'
import { fromHex, toHex } from '../hex.ts'
import { type Answered, ENTRY_OVERHEAD, type IdKey, type NewChannel, type Rows, type Weight } from './rows.ts'
import {
  type ChannelRow,
  type EntryRow,
  type InviteRow,
  KINDS,
  type MemberRow,
  type SenderRow,
  fromJson,
  memberRow,
  readChannel,
  readEntry,
  readInvite,
  readMember,
  readSender,
  senderRow,
  toJson,
} from './sqlite-records.ts'
import { type Statements, prepareStatements } from './sqlite-statements.ts'
import { type Channel, type Slot, lowestCursor, noChanges } from './state.ts'

/** Channels whose records stay in memory between transactions. */
const CACHED_CHANNELS = 1024
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

/** The rows of an open database. */
export class SqliteRows implements Rows {
  readonly #statements: Statements
  /** In the order of their last use. */
  readonly #cache = new Map<ChannelId, Channel>()
  readonly #changed = new Set<Channel>()
  /** A round through the ids: where it stands, the oldest one that was left, and from when on the next one begins. */
  #round = { after: NOTHING, oldest: Infinity, start: 0 }

  constructor(db: DatabaseSync) {
    this.#statements = prepareStatements(db)
  }

  /** Writes the changed records. To be called before the transaction ends. */
  flush(): void {
    for (const channel of this.#changed) this.#write(channel)
    this.#changed.clear()
  }

  /** Keeps no more in memory than it should. To be called between transactions. */
  trim(): void {
    for (const id of this.#cache.keys()) {
      if (this.#cache.size <= CACHED_CHANNELS) return
      this.#cache.delete(id)
    }
  }

  /** Forgets everything in memory: the transaction that it belongs to is undone. */
  forget(): void {
    this.#cache.clear()
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

  channelsOf(agent: AgentId): ChannelId[] {
    this.flush()
    return (this.#statements.channelsOf.all(fromHex(agent)) as unknown as [Uint8Array][]).map(([id]) => toHex(id))
  }

  addChannel(fields: NewChannel, welcome: Uint8Array): Channel {
    const { id, name, account, owner, guestLimit, last } = fields
    const place = [last.index, last.hash, last.slot]
    const { lastInsertRowid } = this.#statements.addChannel.run(
      fromHex(id),
      name,
      account.id,
      account.mode,
      fromHex(owner),
      guestLimit,
      ...place,
      ...place,
    )
    const number = Number(lastInsertRowid)
    this.#statements.addFounding.run(number, welcome)
    const channel: Channel = {
      ...fields,
      number,
      base: last,
      bytes: 0,
      oldestAt: undefined,
      guestDay: 0,
      guestCount: 0,
      due: undefined,
      members: new Map(),
      senders: new Map(),
      slots: new Map(),
      acked: last.index,
      recent: [],
      changes: noChanges(),
    }
    this.#cache.set(id, channel)
    return channel
  }

  founding({ number }: Channel): Uint8Array {
    return (this.#statements.founding.get(number) as unknown as [Uint8Array])[0]
  }

  dropChannel(channel: Channel): void {
    const { dropChannel, dropFounding, dropMembers, dropSenders, dropSlots, dropWelcomes } = this.#statements
    for (const statement of [dropChannel, dropFounding, dropMembers, dropSenders, dropSlots, dropWelcomes]) {
      statement.run(channel.number)
    }
    this.#statements.dropInvites.run(fromHex(channel.id))
    // What may be much goes by and by.
    this.#statements.addDropped.run(channel.number)
    this.#cache.delete(channel.id)
    this.#changed.delete(channel)
  }

  dueChannels(now: Time, limit: number): ChannelId[] {
    this.flush()
    return (this.#statements.dueChannels.all(now, limit) as unknown as [Uint8Array][]).map(([id]) => toHex(id))
  }

  addEntry({ number }: Channel, entry: Entry, body: Uint8Array): void {
    const message = entry.kind === 'message'
    this.#statements.addEntry.run(
      entryKey(number, entry.index),
      KINDS.indexOf(entry.kind),
      entry.slot,
      entry.at,
      message ? entry.counter : 0,
      message && entry.control ? 1 : 0,
      fromHex(entry.sender),
      entry.kind === 'leave' ? NOTHING : entry.messageId,
      entry.hash,
      body,
    )
  }

  *entries({ number }: Channel, after: number, through: number): Iterable<Entry> {
    const rows = this.#statements.entries.iterate(entryKey(number, after), entryKey(number, through))
    for (const row of rows) yield readEntry(row as unknown as EntryRow)
  }

  *weights({ number }: Channel, after: number, through: number): Iterable<Weight> {
    const rows = this.#statements.weights.iterate(entryKey(number, after), entryKey(number, through))
    for (const row of rows) {
      const [index, sender, length, at] = row as unknown as [number, Uint8Array, number, number]
      yield { index, sender: toHex(sender), size: length + ENTRY_OVERHEAD, at }
    }
  }

  position({ number }: Channel, index: number): Position | undefined {
    const row = this.#statements.position.get(entryKey(number, index)) as unknown as
      | [Uint8Array, number, number]
      | undefined
    return row && { index, hash: row[0], slot: row[1] + (KINDS[row[2]] === 'commit' ? 1 : 0) }
  }

  cut({ number }: Channel, through: number): void {
    this.#statements.cut.run(entryKey(number, 0), entryKey(number, through))
  }

  findId({ number }: Channel, key: IdKey, since: Time): Answered | undefined {
    return this.#answered(idKey(number, key), since)
  }

  addId({ number }: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    const bytes = idKey(number, key)
    const { changes } = this.#statements.addId.run(bytes, answer.index, answer.head, answer.at, since)
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

  putWelcome({ number }: Channel, { welcome, ...record }: StoredWelcome, at: Time): void {
    this.#statements.putWelcome.run(number, fromHex(record.agent), at, toJson(record), welcome)
  }

  dropWelcome({ number }: Channel, agent: AgentId): void {
    this.#statements.dropWelcome.run(number, fromHex(agent))
  }

  *welcomesOf(agent: AgentId): Iterable<StoredWelcome> {
    for (const row of this.#statements.welcomesOf.iterate(fromHex(agent))) {
      const [record, welcome] = row as unknown as [string, Uint8Array]
      yield { ...(fromJson(record) as Omit<StoredWelcome, 'welcome'>), welcome }
    }
  }

  expireWelcomes(since: Time): void {
    this.#statements.expireWelcomes.run(since)
  }

  invite(id: string): Invite | undefined {
    const row = this.#statements.invite.get(id)
    return row && readInvite(row as unknown as InviteRow)
  }

  putInvite({ id, channel, agent, admissionKey, expiresAt, maxUses, uses, revoked }: Invite): void {
    const endsAt = revoked ? null : expiresAt
    this.#statements.putInvite.run(
      id,
      fromHex(channel),
      fromHex(agent),
      admissionKey,
      expiresAt,
      maxUses,
      uses,
      revoked ? 1 : 0,
      endsAt,
    )
  }

  countActiveInvites({ id }: Channel, now: Time): number {
    return (this.#statements.countActiveInvites.get(fromHex(id), now) as unknown as [number])[0]
  }

  expireInvites(now: Time, since: Time): void {
    this.#statements.expireInvites.run(since)
    this.#statements.endInvites.run(now)
  }

  #answered(key: Uint8Array, since: Time): Answered | undefined {
    const row = this.#statements.findId.get(key, since) as unknown as [number, number] | undefined
    return row && { index: row[0], head: row[1] }
  }

  #load(id: ChannelId): Channel | undefined {
    const { channel: find, members, senders, slots } = this.#statements
    const row = find.get(fromHex(id)) as unknown as ChannelRow | undefined
    if (!row) return undefined
    const state = readChannel(row)
    const { number } = state
    const channel: Channel = {
      ...state,
      id,
      members: byAgent((members.all(number) as unknown as MemberRow[]).map(readMember)),
      senders: byAgent((senders.all(number) as unknown as SenderRow[]).map(readSender)),
      slots: new Map(
        (slots.all(number) as unknown as [number, string][]).map(([at, text]) => [at, fromJson(text) as Slot]),
      ),
      acked: 0,
      recent: [],
      changes: noChanges(),
    }
    channel.acked = lowestCursor(channel)
    return channel
  }

  #write(channel: Channel): void {
    const { number, changes, last, base, members, senders, slots } = channel
    const statements = this.#statements
    if (changes.channel) {
      statements.saveChannel.run(
        last.index,
        last.hash,
        last.slot,
        base.index,
        base.hash,
        base.slot,
        channel.bytes,
        channel.oldestAt ?? null,
        channel.guestDay,
        channel.guestCount,
        channel.due ?? null,
        number,
      )
    }
    for (const agent of changes.members) {
      const member = members.get(agent)
      if (member) statements.saveMember.run(number, ...memberRow(member))
      else statements.dropMember.run(number, fromHex(agent))
    }
    for (const agent of changes.senders) {
      const sender = senders.get(agent)
      if (sender) statements.saveSender.run(number, ...senderRow(sender))
      else statements.dropSender.run(number, fromHex(agent))
    }
    for (const at of changes.slots) {
      const slot = slots.get(at)
      if (slot) statements.saveSlot.run(number, at, toJson(slot))
      else statements.dropSlot.run(number, at)
    }
    changes.channel = false
    changes.members.clear()
    changes.senders.clear()
    changes.slots.clear()
  }
}

function byAgent<Kind extends { readonly agent: AgentId }>(records: readonly Kind[]): Map<AgentId, Kind> {
  return new Map(records.map((record) => [record.agent, record]))
}
