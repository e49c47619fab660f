/** Rows in SQLite. For the records of channels, see channel-cache.ts. */
import type { DatabaseSync } from 'node:sqlite'
import { fromHex, type Hash, type Mode, toHex } from '@static/protocol'
import type {
  Account,
  AgentId,
  ChannelId,
  Entry,
  Head,
  MemberReceipt,
  Position,
  StoredWelcome,
  Time,
} from '../../ports.ts'
import { checksum, damaged, intact, sealed } from '../checksum.ts'
import { channelRow } from '../records/channel.ts'
import { headerRow, readEntry, readPosition } from '../records/entry.ts'
import { fromJson, toJson } from '../records/json.ts'
import { readSlot, readTurn } from '../records/slot.ts'
import { AccountCache } from './tables/account-cache.ts'
import { ChannelCache } from './tables/channel-cache.ts'
import {
  type Answered,
  type Behind,
  type DroppedWelcome,
  ENTRY_OVERHEAD,
  type Glance,
  type IdKey,
  type NewChannel,
  type NewWelcome,
  type Owned,
  type Rows,
  type Weight,
} from '../ledger/rows/rows.ts'
import { isDamage } from './damage.ts'
import { purgeDropped } from './tables/dropped.ts'
import { SqliteIds } from './tables/ids.ts'
import { SqliteInviteRows } from './tables/invites.ts'
import { entryKey } from './tables/keys.ts'
import { lastSequence, lateChannels } from './tables/late-channels.ts'
import { type Statements, iterate, prepareStatements } from './statements.ts'
import { SqliteTransientRows } from './tables/transient.ts'
import { type AccountRecord, type Channel, type Slot, type Turn, newChannel } from '../ledger/state.ts'

/** Maximum number of entries whose effects are not stored: a crash follows them again. */
const MAX_LATE = 4096
/** Maximum number of damaged channels that the sweep leaves out. */
const MAX_UNSOUND = 1000

type WelcomeRow = [channel: number, shared: number | null, record: string, secrets: Uint8Array]
type DroppedRow = [bytes: number, shared: number | null]

type OwnedRow = [
  number: number,
  id: Uint8Array,
  name: string,
  mode: Mode,
  owner: Uint8Array,
  lastIndex: number,
  logBytes: number,
]

interface RowsOptions {
  /** Approximate memory limit for channel records. */
  readonly cachedBytes?: number
  /** Called for damage that fails no call. */
  readonly onDamage?: (error: unknown) => void
}

/** The rows of an open database. */
export class SqliteRows implements Rows {
  readonly invites: SqliteInviteRows
  readonly transient: SqliteTransientRows
  readonly #statements: Statements
  readonly #hash: Hash
  readonly #cache: ChannelCache
  readonly #accounts: AccountCache
  readonly #ids: SqliteIds
  /** Entries are numbered in the order of their arrival; the number of the last one. */
  #sequence: number
  /** The one up to which all rows are stored, except those of damaged channels; undefined: not known. */
  #stored: number | undefined
  /** The channel that is being swept, and those that cannot be. */
  #swept: ChannelId | undefined
  readonly #unsound = new Set<ChannelId>()
  readonly #onDamage: RowsOptions['onDamage']

  /** `entryMs` is how long entries are kept. */
  constructor(db: DatabaseSync, hash: Hash, entryMs: number, { cachedBytes, onDamage }: RowsOptions = {}) {
    this.invites = new SqliteInviteRows(db)
    this.transient = new SqliteTransientRows(db)
    this.#statements = prepareStatements(db)
    this.#hash = hash
    this.#onDamage = onDamage
    this.#cache = new ChannelCache(this.#statements, { hash, entryMs, onDamage }, cachedBytes)
    const [stored] = intact(this.#statements.stored.get(), 'stored') as [number]
    this.#stored = stored
    this.#sequence = Math.max(stored, lastSequence(this.#statements, onDamage))
    this.#cache.behind(lateChannels(this.#statements, stored, onDamage))
    this.#accounts = new AccountCache(this.#statements)
    this.#ids = new SqliteIds(this.#statements)
  }

  /** Number of cached channels and their approximate size. */
  get cached(): { readonly channels: number; readonly bytes: number } {
    return this.#cache.size
  }

  /** Writes changed records, except what follows from entries. Must be called before the transaction commits. */
  flush(): void {
    if (this.#sequence - (this.#stored ?? 0) > MAX_LATE) this.store()
    else this.#cache.flush()
  }

  /** Writes all changed records. */
  store(): void {
    this.#cache.store()
    if (this.#sequence !== this.#stored) this.#statements.putStored.run(...sealed([this.#sequence]))
    this.#stored = this.#sequence
  }

  settle(): void {
    this.#cache.settle()
    this.#accounts.settle()
  }

  /** Must be called once the transaction has been committed. */
  committed(): void {
    this.#cache.committed()
  }

  /**
   * Forgets everything in memory, because its transaction was rolled back. Returns whether another try is worth it: it
   * failed because of a damaged channel that no call needs, which is left out from now on.
   */
  forget(error: unknown): boolean {
    const isSpoiled = this.#cache.clear() || this.#leaveOut(error)
    this.#swept = undefined
    this.#accounts.clear()
    this.#stored = undefined
    this.#ids.restart()
    return isSpoiled
  }

  channel(id: ChannelId): Channel | undefined {
    return this.#cache.get(id)
  }

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    return this.#cache.glance(id, agent)
  }

  heads(ids: readonly ChannelId[]): readonly Head[] {
    return ids.flatMap((channel) => {
      const last = this.#cache.last(channel)
      return last ? { channel, index: last.index, slot: last.slot } : []
    })
  }

  changed(channel: Channel): void {
    this.#cache.changed(channel)
  }

  account(account: Account): AccountRecord {
    const known = this.#accounts.get(account)
    if (known) return known
    // All changes must be written first: the sum is computed from the rows.
    this.store()
    return this.#accounts.load(account)
  }

  putAllotment(record: AccountRecord): void {
    this.#accounts.put(record)
  }

  named({ id, mode }: Account, name: string): ChannelId | undefined {
    const row = this.#statements.named.get(id, mode, name) as unknown as [Uint8Array] | undefined
    return row && toHex(row[0])
  }

  countChannels({ id, mode }: Account): number {
    return (this.#statements.countChannels.get(id, mode) as unknown as [number])[0]
  }

  /** Without their checksums: what is shown here decides nothing. */
  owned(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] } {
    this.store()
    const [total] = this.#statements.countOwned.get(account) as unknown as [number]
    const rows = this.#statements.ownedChannels.all(account, limit, skip) as unknown as OwnedRow[]
    const channels = rows.map(([number, id, name, mode, owner, lastIndex, logBytes]) => {
      return { number, id: toHex(id), name, mode, owner: toHex(owner), lastIndex, logBytes }
    })
    return { total, channels }
  }

  furthestBehind({ number }: Pick<Owned, 'number'>, limit: number): Behind {
    const [count] = this.#statements.countRoster.get(number) as unknown as [number]
    const rows = this.#statements.furthestBehind.all(number, limit) as unknown as [Uint8Array, number][]
    return { count, members: rows.map(([agent, cursor]) => ({ agent: toHex(agent), cursor })) }
  }

  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[] {
    return this.#cache.receipts(id, agent, limit)
  }

  channelsOf(agent: AgentId, after: ChannelId | undefined, limit: number): ChannelId[] {
    this.#cache.flush()
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
    this.#cache.add(channel)
    return channel
  }

  founding({ number }: Channel): Uint8Array {
    return (intact(this.#statements.founding.get(number), 'a founding') as [Uint8Array])[0]
  }

  dropChannel(channel: Channel): void {
    const { number, account, bytes } = channel
    const { dropChannel, dropFounding, dropMembers, addDropped } = this.#statements
    for (const statement of [dropChannel, dropFounding, dropMembers]) statement.run(number)
    this.invites.dropChannel(channel)
    addDropped.run(number, account.id, account.mode, bytes)
    this.#cache.drop(channel)
  }

  purge(): void {
    purgeDropped(this.#statements, (account, bytes) => (this.account(account).bytes -= bytes))
  }

  /** Without those that the sweep found damaged. */
  *dueChannels(now: Time, limit: number): Iterable<ChannelId> {
    this.store()
    const rows = this.#statements.dueChannels.all(now, limit + this.#unsound.size) as unknown as [Uint8Array][]
    const ids = rows.map(([id]) => toHex(id)).filter((id) => !this.#unsound.has(id))
    for (const id of ids.slice(0, limit)) {
      this.#swept = id
      yield id
      this.#swept = undefined
    }
  }

  addEntry(channel: Channel, entry: Entry, body: Uint8Array): void {
    const sender = channel.senders.get(entry.sender)?.agentBytes ?? fromHex(entry.sender)
    const header = headerRow(entry, sender)
    const [index, ...columns] = header
    this.#sequence += 1
    const place = [this.#sequence, entryKey(channel.number, index)] as const
    this.#statements.addEntry.run(...place, ...columns, checksum(header), body)
    this.#cache.logged(channel, entry, body.length + ENTRY_OVERHEAD)
  }

  *entries({ number, id }: Channel, after: Position, through: number): Iterable<Entry> {
    let previous = after
    for (const row of iterate(this.#statements.entries, entryKey(number, after.index), entryKey(number, through))) {
      const { entry, position } = readEntry(this.#hash, previous, row)
      previous = position
      yield entry
    }
    if (previous.index < through) throw damaged(`channel ${id} has no entry ${previous.index + 1}`)
  }

  *weights({ number }: Channel, after: number, through: number): Iterable<Weight> {
    const rows = iterate(this.#statements.weights, entryKey(number, after), entryKey(number, through))
    for (const row of rows) {
      const [index, sender, length, at] = row as [number, Uint8Array, number, number]
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
    return row && readSlot(row)
  }

  putSlot({ number }: Channel, slot: Slot): void {
    this.#statements.putSlot.run(number, ...sealed([slot.slot, slot.position.index, toJson(slot)]))
  }

  dropSlot(channel: Channel, slot: number): { readonly slots: number; readonly turns: number } {
    const slots = Number(this.#statements.dropSlot.run(channel.number, slot).changes)
    return { slots, turns: this.dropTurns(channel, slot) }
  }

  commitAfter({ number }: Channel, index: number): number | undefined {
    const row = this.#statements.commitAfter.get(number, index) as unknown as [number] | undefined
    return row?.[0]
  }

  turnsOf({ number }: Channel, slot: number): Turn[] {
    const turns = this.#statements.turnsOf.all(number, slot).map(readTurn)
    return turns.filter(({ notice }) => !notice)
  }

  *turnsFrom({ number, settled }: Channel, agent: AgentId, index: number): Iterable<Turn> {
    for (const row of iterate(this.#statements.turnsFrom, number, fromHex(agent), index, settled)) yield readTurn(row)
  }

  putTurn({ number }: Channel, turn: Turn): void {
    const { agent, position, slot } = turn
    this.#statements.putTurn.run(number, ...sealed([fromHex(agent), position.index, slot, toJson(turn)]))
  }

  dropTurns({ number }: Channel, slot: number): number {
    return Number(this.#statements.dropTurns.run(number, slot).changes)
  }

  findId(channel: Channel, key: IdKey, since: Time): Answered | undefined {
    return this.#ids.find(channel, key, since)
  }

  addId(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    return this.#ids.add(channel, key, answer, since)
  }

  expireIds(since: Time): void {
    this.#ids.expire(since)
  }

  putWelcome({ number, account }: Channel, { welcome, shares, ...record }: NewWelcome, at: Time): void {
    const place = [number, fromHex(record.agent), account.id, account.mode, at] as const
    const shared = shares ? record.position.index : null
    const row = [shared, toJson(record), welcome] as const
    this.#statements.putWelcome.run(...place, ...row, checksum([number, ...row]))
  }

  dropWelcome({ number }: Channel, agent: AgentId): DroppedWelcome | undefined {
    const row = this.#statements.dropWelcome.get(number, fromHex(agent)) as unknown as DroppedRow | undefined
    return row && { bytes: row[0], shared: row[1] ?? undefined }
  }

  putGroupInfo({ number }: Channel, index: number, groupInfo: Uint8Array): void {
    this.#statements.putGroupInfo.run(...sealed([number, index, groupInfo]))
  }

  dropGroupInfo({ number }: Channel, index: number): number {
    const row = this.#statements.dropGroupInfo.get(number, index) as unknown as [number] | undefined
    return row?.[0] ?? 0
  }

  countWelcomes({ number, account }: Channel, agent: AgentId): number {
    const row = this.#statements.countWelcomes.get(fromHex(agent), account.id, account.mode, number)
    return (row as unknown as [number])[0]
  }

  *welcomesOf(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }> {
    for (const row of iterate(this.#statements.welcomesOf, fromHex(agent), after)) {
      const [sequence, size] = row as [number, number]
      yield { sequence, size }
    }
  }

  welcome(sequence: number): StoredWelcome {
    const row = this.#statements.welcome.get(sequence)
    const [channel, shared, record, secrets] = intact(row, `Welcome ${sequence}`) as WelcomeRow
    const welcome = shared === null ? secrets : Buffer.concat([secrets, this.#groupInfo(channel, shared)])
    return { ...(fromJson(record) as Omit<StoredWelcome, 'welcome' | 'sequence'>), welcome, sequence }
  }

  oldWelcomes(since: Time, limit: number): { readonly channel: ChannelId; readonly agent: AgentId }[] {
    const rows = this.#statements.oldWelcomes.all(since, limit) as unknown as [Uint8Array, Uint8Array][]
    return rows.map(([channel, agent]) => ({ channel: toHex(channel), agent: toHex(agent) }))
  }

  /** Leaves the channel that is being swept out of later sweeps, if it is damaged. */
  #leaveOut(error: unknown): boolean {
    if (this.#swept === undefined || !isDamage(error) || this.#unsound.size >= MAX_UNSOUND) return false
    this.#unsound.add(this.#swept)
    this.#onDamage?.(error)
    return true
  }

  #groupInfo(channel: number, index: number): Uint8Array {
    const row = this.#statements.groupInfo.get(channel, index)
    return (intact(row, `the GroupInfo of commit ${index}`) as [number, number, Uint8Array])[2]
  }
}
