/** Rows in PostgreSQL, for the synchronous ledger: what a transaction has read, and what its batch has changed. */
import { type Hash, type Mode, toHex } from '@static/protocol'
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
import type {
  Answered,
  Behind,
  DroppedWelcome,
  Glance,
  IdKey,
  NewChannel,
  NewWelcome,
  Owned,
  Rows,
  Weight,
} from '../ledger/rows/rows.ts'
import type { AccountRecord, Channel, Slot, Turn } from '../ledger/state.ts'
import type { Proof } from './doubt.ts'
import { DueRows } from './due.ts'
import { Facts } from './facts.ts'
import { writeHot, writeIfCurrent } from './hot-write.ts'
import { statement } from './session.ts'
import { AccountTable } from './tables/accounts.ts'
import type { CacheOptions } from './tables/channel-cache.ts'
import { ChannelTable } from './tables/channels.ts'
import { IdTable } from './tables/ids.ts'
import { InviteTable } from './tables/invites.ts'
import { LogTable } from './tables/log.ts'
import { NameTable } from './tables/names.ts'
import { ReceiptReads } from './tables/receipts.ts'
import { SlotTable } from './tables/slots.ts'
import { TransientTable } from './tables/transient.ts'
import { type OldWelcome, WelcomeTable } from './tables/welcomes.ts'
import { type Transaction, ask } from './write.ts'

const OWNED = statement(`SELECT number, id, name, mode, owner, last_index,
    (SELECT coalesce(sum(bytes), 0)::bigint FROM senders WHERE channel = number)
  FROM channels WHERE account = $1 ORDER BY mode, name LIMIT $2 OFFSET $3`)
const COUNT_OWNED = statement('SELECT count(*) FROM channels WHERE account = $1')
const BEHIND = statement(`SELECT agent, cursor_index, count(*) OVER () FROM members
  WHERE channel = $1 AND ended_index IS NULL AND welcomed = 1 ORDER BY cursor_index, agent LIMIT $2`)

type OwnedRow = [number, Uint8Array, string, Mode, Uint8Array, number, number]

/** The rows of a lane. */
export class PostgresRows implements Rows {
  readonly transaction: Transaction
  readonly channels: ChannelTable
  readonly names: NameTable
  readonly accounts: AccountTable
  readonly log: LogTable
  readonly slots: SlotTable
  readonly ids: IdTable
  readonly welcomes: WelcomeTable
  readonly invites: InviteTable
  readonly transient: TransientTable
  readonly receiptReads: ReceiptReads
  readonly due: DueRows
  readonly #facts = new Facts()
  /** Whether the current operation is an acknowledgement, which does not raise a channel's version. */
  #isAck = false
  #expired: Time | undefined

  constructor(transaction: Transaction, hash: Hash, cache: CacheOptions) {
    this.transaction = transaction
    this.log = new LogTable(transaction, hash)
    this.channels = new ChannelTable(transaction, this.log, cache)
    this.names = new NameTable(transaction, () => this.channels.changes)
    this.accounts = new AccountTable(transaction, cache.freshMs, cache.accounts)
    this.slots = new SlotTable(transaction)
    this.ids = new IdTable(transaction)
    this.welcomes = new WelcomeTable(transaction)
    this.invites = new InviteTable(transaction)
    this.transient = new TransientTable(transaction)
    this.receiptReads = new ReceiptReads(transaction)
    this.due = new DueRows(this)
  }

  /** A transaction begins. */
  begin(): void {
    this.#facts.clear()
    this.receiptReads.begin()
    this.names.begin()
    this.due.begin()
    this.#expired = undefined
    for (const table of this.#tables()) table.begin()
  }

  /** The batch is decided again. */
  rewind(): void {
    for (const table of this.#tables()) table.rewind()
  }

  /** An operation begins. */
  enter(isAck: boolean): void {
    this.#isAck = isAck
    this.channels.settle()
  }

  /** Sends all changes of the batch. */
  write(): void {
    // Deletes the rows of deleted channels before others with their names and ids are stored.
    this.channels.write()
    writeHot(this.transaction, this)
    this.#writeOthers()
    this.due.write()
  }

  /**
   * Stores a batch of `count` messages and commits, if nothing has changed since it was decided on. Returns whether it
   * did. Throws `Unforeseen` if the batch has changed more than these messages do.
   */
  storeIfCurrent(count: number): Promise<boolean> {
    this.channels.write()
    this.#writeOthers()
    return writeIfCurrent(this.transaction, this, count)
  }

  /** What tells later whether the batch was committed; undefined if nothing does. */
  proof(): Proof | undefined {
    return this.log.proof((channel) => this.channels.isLive(channel))
  }

  /** The current operation was stopped. */
  suspect(): void {
    this.channels.suspect()
  }

  committed(): void {
    this.channels.committed()
    this.accounts.committed()
  }

  /** Nothing in memory can be trusted any more. */
  forget(): void {
    this.channels.forget()
    this.accounts.forget()
  }

  /** Ids from before this time may be deleted, if a sweep has asked for it. */
  get expired(): Time | undefined {
    return this.#expired
  }

  settle(): void {
    this.channels.settle()
  }

  channel(id: ChannelId): Channel | undefined {
    return this.channels.get(id)
  }

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    return this.channels.glance(id, agent)
  }

  heads(ids: readonly ChannelId[]): readonly Head[] {
    return this.channels.heads(ids)
  }

  changed(channel: Channel): void {
    this.channels.changed(channel, this.#isAck)
  }

  account(account: Account): AccountRecord {
    return this.accounts.get(account)
  }

  putAllotment(record: AccountRecord): void {
    this.accounts.put(record)
  }

  named(account: Account, name: string): ChannelId | undefined {
    return this.names.find(account, name)
  }

  countChannels(account: Account): number {
    return this.names.count(account)
  }

  /** Without their checksums: what is shown here decides nothing. */
  owned(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] } {
    const [count] = this.#facts.need(`count ${account}`, () => ask(this.transaction, COUNT_OWNED, [account]))
    const rows = this.#facts.need(`owned ${account} ${skip} ${limit}`, () =>
      ask(this.transaction, OWNED, [account, limit, skip]),
    )
    const channels = (rows as OwnedRow[]).map(([number, id, name, mode, owner, lastIndex, logBytes]) => {
      return { number, id: toHex(id), name, mode, owner: toHex(owner), lastIndex, logBytes }
    })
    return { total: count?.[0] as number, channels }
  }

  furthestBehind({ number }: Pick<Owned, 'number'>, limit: number): Behind {
    // One more than asked for, because only a row says how many there are.
    const rows = this.#facts.need(`behind ${number} ${limit}`, () =>
      ask(this.transaction, BEHIND, [number, Math.max(1, limit)]),
    )
    const members = (rows as [Uint8Array, number, number][]).slice(0, limit)
    return {
      count: (rows[0]?.[2] as number | undefined) ?? 0,
      members: members.map(([agent, cursor]) => ({ agent: toHex(agent), cursor })),
    }
  }

  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[] {
    return this.receiptReads.of(id, agent, limit, this.channels.find(id))
  }

  channelsOf(agent: AgentId, after: ChannelId | undefined, limit: number): ChannelId[] {
    return this.channels.channelsOf(agent, after, limit)
  }

  isMember(agent: AgentId): boolean {
    return this.channelsOf(agent, undefined, 1).length > 0
  }

  addChannel(fields: NewChannel, welcome: Uint8Array): Channel {
    return this.channels.add(fields, welcome)
  }

  founding(channel: Channel): Uint8Array {
    return this.channels.founding(channel)
  }

  dropChannel(channel: Channel): void {
    this.slots.drop(channel)
    this.welcomes.dropChannel(channel)
    this.invites.dropChannel(channel)
    this.channels.drop(channel)
  }

  /** Done before the ledger decides (needs.ts). */
  purge(): void {}

  dueChannels(now: Time, limit: number): Iterable<ChannelId> {
    return this.due.channels(now, limit)
  }

  addEntry(channel: Channel, entry: Entry, body: Uint8Array): void {
    this.log.add(channel, entry, body)
  }

  entries(channel: Channel, after: Position, through: number): Iterable<Entry> {
    return this.log.entries(channel, after, through)
  }

  weights(channel: Channel, after: number, through: number): Iterable<Weight> {
    return this.log.weights(channel, after, through)
  }

  position(channel: Channel, index: number): Position {
    return this.log.position(channel, index)
  }

  cut(channel: Channel, through: number): void {
    this.log.cut(channel, through)
  }

  slot(channel: Channel, slot: number): Slot | undefined {
    return this.slots.slot(channel, slot)
  }

  putSlot(channel: Channel, slot: Slot): void {
    this.changed(channel)
    this.slots.putSlot(channel, slot)
  }

  dropSlot(channel: Channel, slot: number): { readonly slots: number; readonly turns: number } {
    return this.slots.dropSlot(channel, slot)
  }

  commitAfter(channel: Channel, index: number): number | undefined {
    return this.slots.commitAfter(channel, index)
  }

  turnsOf(channel: Channel, slot: number): Turn[] {
    return this.slots.turnsOf(channel, slot)
  }

  turnsFrom(channel: Channel, agent: AgentId, index: number): Turn[] {
    return this.slots.turnsFrom(channel, agent, index)
  }

  putTurn(channel: Channel, turn: Turn): void {
    this.slots.putTurn(channel, turn)
  }

  dropTurns(channel: Channel, slot: number): number {
    return this.slots.dropTurns(channel, slot)
  }

  findId(channel: Channel, key: IdKey, since: Time): Answered | undefined {
    return this.ids.find(channel, key, since)
  }

  addId(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    return this.ids.add(channel, key, answer, since)
  }

  expireIds(since: Time): void {
    this.#expired = since
  }

  putWelcome(channel: Channel, welcome: NewWelcome, at: Time): void {
    this.welcomes.put(channel, welcome, at)
  }

  dropWelcome(channel: Channel, agent: AgentId): DroppedWelcome | undefined {
    return this.welcomes.drop(channel, agent)
  }

  putGroupInfo(channel: Channel, index: number, groupInfo: Uint8Array): void {
    this.welcomes.putGroupInfo(channel, index, groupInfo)
  }

  dropGroupInfo(channel: Channel, index: number): number {
    return this.welcomes.dropGroupInfo(channel, index)
  }

  countWelcomes(channel: Channel, agent: AgentId): number {
    return this.welcomes.count(channel, agent, (number) => this.channels.isLive({ number }))
  }

  welcomesOf(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }> {
    return this.welcomes.of(agent, after, (number) => this.channels.isLive({ number }))
  }

  welcome(sequence: number): StoredWelcome {
    return this.welcomes.get(sequence)
  }

  oldWelcomes(since: Time, limit: number): readonly OldWelcome[] {
    return this.due.welcomes(since, limit)
  }

  #writeOthers(): void {
    for (const table of [this.log, this.accounts, this.slots, this.welcomes, this.invites, this.transient])
      table.write()
  }

  #tables(): readonly { begin(): void; rewind(): void }[] {
    return [this.channels, this.accounts, this.log, this.slots, this.ids, this.welcomes, this.invites, this.transient]
  }
}
