/**
 * Channels with their members and senders. Changing anything in a channel requires the lock of its row, so that what
 * was read stays true until the transaction ends.
 */
import { toHex } from '@static/protocol'
import type { Account, AgentId, ChannelId, Head, MemberReceipt, Position } from '../../../ports.ts'
import { intact } from '../../checksum.ts'
import type { ChannelRows, Glance, NewChannel } from '../../ledger/rows/channels.ts'
import { type Channel, emptyChannel, findMember, newChannel, onRoster } from '../../ledger/state.ts'
import { readChannel } from '../../records/channel.ts'
import { Facts, Missing, type Table } from '../facts.ts'
import type { Row } from '../session.ts'
import { type Transaction, ask, bytea } from '../write.ts'
import { type CacheOptions, ChannelCache } from './channel-cache.ts'
import {
  type Loading,
  completeChannels,
  intactChannel,
  isTorn,
  loadChannels,
  loadMembers,
  moveCursors,
  readEnds,
  readParts,
} from './channel-loader.ts'
import { ACTING, FOUNDING, HEADS, LOCK, NUMBERS, OF_AGENT, READ } from './channel-statements.ts'
import { type ChannelChanges, writeChannels } from './channel-writes.ts'
import { Glances } from './glances.ts'
import type { Kept } from './kept.ts'
import type { LogTable } from './log.ts'
import { ReceiptReads } from './receipts.ts'
import { Trust } from './trust.ts'

/** An agent in a channel. */
export interface Acting {
  readonly channel: ChannelId
  readonly agent: AgentId
}

/**
 * Members whose cursors must be current, because other nodes may have moved them: individual ones, and all of some
 * channels.
 */
export interface CurrentMembers {
  readonly acting: readonly Acting[]
  readonly rosters: ReadonlySet<ChannelId>
}

const NO_MEMBERS: CurrentMembers = { acting: [], rosters: new Set() }

export class ChannelTable implements ChannelRows, Table {
  readonly #transaction: Transaction
  readonly #freshMs: number
  readonly #cache: ChannelCache
  readonly #trust: Trust
  readonly #facts = new Facts()
  readonly #glances: Glances
  readonly #receipts: ReceiptReads
  /** The channels of this transaction. Null: it does not exist, or was deleted. */
  readonly #present = new Map<ChannelId, Kept | null>()
  /** The channels that the current operation has used. */
  readonly #used = new Set<ChannelId>()
  /** The channels used by operations that were stopped. */
  readonly #suspect = new Set<ChannelId>()
  readonly #damaged = new Map<ChannelId, unknown>()
  /** All channels that this transaction has read. */
  readonly #seen = new Set<ChannelId>()
  readonly #loading: Loading
  #numbers: number[] = []
  /** Whether the current operation is an acknowledgement, which does not raise a channel's version. */
  #isAck = false
  #changes: ChannelChanges

  constructor(transaction: Transaction, log: LogTable, { cachedBytes, freshMs }: CacheOptions) {
    this.#transaction = transaction
    this.#freshMs = freshMs
    this.#cache = new ChannelCache(cachedBytes)
    this.#trust = new Trust(freshMs)
    this.#glances = new Glances(transaction)
    this.#receipts = new ReceiptReads(transaction)
    this.#loading = { transaction, log, guard: (id, read) => this.#guard(id, read) }
    this.#changes = noChanges()
  }

  get cached(): ChannelCache['size'] {
    return this.#cache.size
  }

  /** The channels that this transaction has read, including those that a rewind has forgotten. */
  get seen(): Iterable<ChannelId> {
    return this.#seen
  }

  get changes(): ChannelChanges {
    return this.#changes
  }

  begin(): void {
    this.#facts.clear()
    this.#glances.begin()
    this.#receipts.begin()
    this.#present.clear()
    this.#used.clear()
    this.#suspect.clear()
    this.#damaged.clear()
    this.#seen.clear()
    this.#numbers = []
    this.#changes = noChanges()
  }

  /** Channels that may have changed are read again; they are still locked. */
  rewind(): void {
    const { changed, created, dropped } = this.#changes
    const doubtful = [...changed, ...created.keys(), ...dropped.values()].map(({ id }) => id)
    for (const id of [...doubtful, ...this.#used, ...this.#suspect]) {
      this.#present.delete(id)
      this.#cache.drop(id)
    }
    this.#used.clear()
    this.#suspect.clear()
    this.#changes = noChanges()
  }

  /** Called when the current operation was stopped: the channels that it has used may be half changed. */
  suspect(): void {
    for (const id of this.#used) this.#suspect.add(id)
  }

  /** Clears the cache: another server may have a different history with the same versions. */
  forget(): void {
    this.#cache.clear()
  }

  /** Another operation begins. */
  enter(isAck: boolean): void {
    this.#isAck = isAck
    this.settle()
  }

  settle(): void {
    this.#used.clear()
  }

  get(id: ChannelId): Channel | undefined {
    this.#used.add(id)
    if (this.#damaged.has(id)) throw this.#damaged.get(id)
    const kept = this.#present.get(id)
    if (kept === undefined) throw new Missing(() => this.fetch([id], NO_MEMBERS))
    return kept?.channel
  }

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    const kept = this.#present.get(id)
    const member = kept && findMember(kept.channel, agent)
    if (kept && member) return { channel: kept.channel, member, sender: kept.channel.senders.get(agent) }
    const found = kept === undefined ? this.#glances.get(id, agent) : undefined
    if (!found) this.#glances.checkAbsent(id, agent)
    return found
  }

  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[] {
    return this.#receipts.of(id, agent, limit, this.find(id))
  }

  changed(channel: Channel): void {
    const { changed, raised } = this.#changes
    changed.add(channel)
    if (!this.#isAck || channel.changes.channel || channel.changes.senders.size > 0) raised.add(channel)
  }

  of(agent: AgentId, after: ChannelId | undefined, limit: number): readonly ChannelId[] {
    // For channels that this batch has changed, use the records.
    const { changed, created, dropped } = this.#changes
    const touched = new Set([...changed, ...created.keys(), ...dropped.values()])
    const enough = limit + touched.size
    const stored = this.#facts.need(`channels of ${agent} ${after} ${enough}`, async () => {
      const rows = await ask(this.#transaction, OF_AGENT, [bytea(agent), bytea(after ?? ''), enough])
      const ids = rows.map(([id]) => toHex(id as Uint8Array))
      await this.#glances.fetch(ids, agent)
      return ids
    })
    const found = new Set(stored)
    for (const channel of touched) found.delete(channel.id)
    for (const channel of touched) {
      const isNext = after === undefined || channel.id > after
      if (this.isLive(channel) && isNext && onRoster(channel.members.get(agent))) found.add(channel.id)
    }
    return [...found].sort().slice(0, limit)
  }

  heads(ids: readonly ChannelId[]): readonly Head[] {
    const rows = this.#facts.need(`heads ${ids.join(' ')}`, () => ask(this.#transaction, HEADS, [ids.map(bytea)]))
    const stored = new Map(
      (rows as [Uint8Array, number, number][]).map(([id, index, slot]) => [toHex(id), { index, slot }]),
    )
    return ids.flatMap((channel): Head[] => {
      const kept = this.#present.get(channel)
      const last: Pick<Position, 'index' | 'slot'> | undefined = kept ? kept.channel.last : stored.get(channel)
      return last && kept !== null ? [{ channel, index: last.index, slot: last.slot }] : []
    })
  }

  add(fields: NewChannel, welcome: Uint8Array): Channel {
    const { created } = this.#changes
    const number = this.#numbers[created.size]
    if (number === undefined) throw new Missing(() => this.reserve(this.#numbers.length + 1))
    const channel = newChannel(number, fields)
    created.set(channel, welcome)
    this.#present.set(channel.id, { channel, version: 1, membersAt: performance.now() })
    return channel
  }

  founding(channel: Channel): Uint8Array {
    const own = this.#changes.created.get(channel)
    if (own) return own
    const [row] = this.#facts.need(`founding ${channel.number}`, () =>
      ask(this.#transaction, FOUNDING, [channel.number]),
    )
    return (intact(row, 'a founding') as [Uint8Array])[0]
  }

  drop(channel: Channel): void {
    this.#changes.dropped.set(channel.number, channel)
    this.#present.set(channel.id, null)
    this.#cache.drop(channel.id)
  }

  /** Reads channels again: other nodes and lanes may have moved cursors. Returns the undamaged ones. */
  async reload(ids: readonly ChannelId[]): Promise<Channel[]> {
    for (const id of ids) if (!this.#present.has(id)) this.#cache.drop(id)
    await this.fetch(ids, NO_MEMBERS)
    return ids.flatMap((id) => (this.#damaged.has(id) ? [] : (this.find(id) ?? [])))
  }

  /** Whether a channel was not deleted by this batch. */
  isLive({ number }: Pick<Channel, 'number'>): boolean {
    return !this.#changes.dropped.has(number)
  }

  /** A channel that was read by this transaction. */
  find(id: ChannelId): Channel | undefined {
    return this.#present.get(id)?.channel
  }

  /** The accounts of the channels that were read. */
  accounts(): Account[] {
    return [...this.#present.values()].flatMap((kept) => kept?.channel.account ?? [])
  }

  /** Numbers for new channels. */
  async reserve(count: number): Promise<void> {
    if (count <= this.#numbers.length) return
    const rows = await ask(this.#transaction, NUMBERS, [count - this.#numbers.length])
    this.#numbers.push(...rows.map(([number]) => number as number))
  }

  /** Reads an agent's own rows in channels, with some receipts, but not the rest of these channels. */
  fetchGlances(ids: readonly ChannelId[], agent: AgentId, receipts: number): readonly Promise<void>[] {
    return [this.#glances.fetch(ids, agent), this.#receipts.fetch(ids, agent, receipts)]
  }

  /**
   * Reads channels, locked if the transaction changes anything, and the members whose cursors must be current.
   */
  async fetch(ids: readonly ChannelId[], { acting, rosters }: CurrentMembers): Promise<void> {
    const wanted = new Set(ids.filter((id) => !this.#present.has(id)))
    if (wanted.size === 0) return
    for (const id of wanted) this.#seen.add(id)
    const reading = ask(this.#transaction, this.#transaction.locks ? LOCK : READ, [[...wanted].map(bytea)])
    const refreshed = this.#refresh(acting.filter(({ channel }) => wanted.has(channel)))
    // Read everything at once where the cache will not be current.
    const early = readParts(
      this.#transaction,
      [...wanted].filter((id) => !this.#cache.get(id) || this.#trust.isShared(id)),
    )
    // Awaited below, but may fail before that.
    for (const promise of [refreshed, early]) promise.catch(() => {})
    const rows = await reading
    const stale = new Set<Kept>()
    const aged: Kept[] = []
    for (const id of wanted) this.#present.set(id, null)
    const now = performance.now()
    for (const [number, version, ...row] of rows) {
      const id = toHex(row[0] as Uint8Array)
      const fresh = this.#guard(id, () => emptyChannel(readChannel(number as number, intactChannel(row))))
      if (!fresh) continue
      const known = this.#cache.get(id)
      this.#trust.found(id, version as number, known?.version)
      if (known && known.version === version && known.channel.number === number) {
        this.#present.set(id, known)
        const isAged = now - known.membersAt >= this.#freshMs && holdsEntries(known.channel)
        if (isAged || rosters.has(id)) aged.push(known)
      } else {
        const kept = { channel: fresh, version: version as number, membersAt: now }
        this.#present.set(id, kept)
        stale.add(kept)
      }
    }
    const currentOf = (id: ChannelId): Channel | undefined => {
      const kept = this.#present.get(id)
      return kept && !stale.has(kept) ? kept.channel : undefined
    }
    const applied = refreshed.then((found) => moveCursors(found, currentOf))
    await Promise.all([loadChannels(this.#loading, [...stale], await early), loadMembers(this.#loading, aged), applied])
  }

  /**
   * Reads channels without locks. Only for messages: the statement that stores them checks that the channels have not
   * changed since. Channels that changed during the read are left out.
   */
  async read(ids: readonly ChannelId[]): Promise<void> {
    const { rows, parts } = await readEnds(this.#transaction, ids)
    const now = performance.now()
    for (const id of ids) this.#present.set(id, null)
    const found = rows.flatMap(([number, version, ...row]): Kept[] => {
      const id = toHex(row[0] as Uint8Array)
      const channel = this.#guard(id, () => emptyChannel(readChannel(number as number, intactChannel(row))))
      if (!channel) return []
      const kept = { channel, version: version as number, membersAt: now }
      this.#present.set(id, kept)
      this.#trust.assume(id, kept.version, 'read')
      return [kept]
    })
    completeChannels(this.#loading, found, parts)
    for (const { channel } of found) if (isTorn(channel)) this.#present.delete(channel.id)
  }

  /** The version that a channel was read at. */
  versionOf({ id }: Channel): number {
    return this.#present.get(id)?.version ?? 0
  }

  /** Whether a channel is damaged: operations that need it stop before changing anything. */
  isDamaged(id: ChannelId | undefined): boolean {
    return id !== undefined && this.#damaged.has(id)
  }

  /** For a while, the cache of a channel does not count as current. */
  distrust(id: ChannelId): void {
    this.#trust.distrust(id)
  }

  isDistrusted(id: ChannelId): boolean {
    return this.#trust.isDistrusted(id)
  }

  /**
   * Assumes that the cache is current; the statement that stores messages checks it. Returns the channels that must be
   * read: those not in the cache, and those that another node also uses.
   */
  assumeCurrent(ids: readonly ChannelId[]): ChannelId[] {
    const unknown = new Set<ChannelId>()
    for (const id of ids) {
      const known = this.#cache.get(id)
      if (known && !this.#trust.isShared(id)) {
        this.#present.set(id, known)
        this.#trust.assume(id, known.version, 'remembered')
      } else unknown.add(id)
    }
    return [...unknown]
  }

  write(): void {
    const keptOf = ({ id }: Channel): Kept | undefined => this.#present.get(id) ?? undefined
    writeChannels(this.#transaction, this.#changes, { keptOf, marksAcks: this.#freshMs > 0 })
  }

  /** Called when the transaction is committed: memory now matches the database. */
  committed(): void {
    const { changed, raised, created } = this.#changes
    this.#trust.settle()
    for (const channel of [...changed, ...created.keys()]) {
      channel.changes.channel = false
      channel.changes.ownedBefore = undefined
      channel.changes.members.clear()
      channel.changes.senders.clear()
    }
    for (const kept of this.#present.values()) {
      if (!kept || this.#damaged.has(kept.channel.id)) continue
      if (raised.has(kept.channel) && !created.has(kept.channel)) kept.version += 1
      this.#cache.put(kept)
    }
  }

  /** Damage makes only its own channel unusable. */
  #guard<Result>(id: ChannelId, read: () => Result): Result | undefined {
    try {
      return read()
    } catch (error) {
      this.#damaged.set(id, error)
      this.#cache.drop(id)
      return undefined
    }
  }

  async #refresh(acting: readonly Acting[]): Promise<Row[]> {
    const cached = acting.filter(({ channel }) => this.#cache.get(channel))
    if (cached.length === 0) return []
    const values = [cached.map(({ channel }) => bytea(channel)), cached.map(({ agent }) => bytea(agent))]
    return ask(this.#transaction, ACTING, values)
  }
}

function noChanges(): ChannelChanges {
  return { changed: new Set(), raised: new Set(), created: new Map(), dropped: new Map() }
}

function holdsEntries({ last, base }: Channel): boolean {
  return last.index > base.index
}
