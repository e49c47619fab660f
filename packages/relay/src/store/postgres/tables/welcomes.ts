/** Pending Welcomes and the GroupInfos they share. */
import { toHex } from '@static/protocol'
import type { Account, AgentId, StoredWelcome, Time } from '../../../ports.ts'
import { checksum, intact, sealed } from '../../checksum.ts'
import type { OldWelcome } from '../../ledger/rows/due.ts'
import type { DroppedWelcome, NewWelcome, WelcomeRows } from '../../ledger/rows/welcomes.ts'
import type { Channel } from '../../ledger/state.ts'
import { fromJson, toJson } from '../../records/json.ts'
import { Facts, Missing, Stale, type Table } from '../facts.ts'
import { type Row, statement } from '../session.ts'
import { Blob, type Transaction, ask, bytea, columns, send } from '../write.ts'
import type { ChannelTable } from './channels.ts'

const SEQUENCES = statement(
  `SELECT nextval(pg_get_serial_sequence('welcomes', 'sequence')) FROM generate_series(1, $1::int)`,
)
const PENDING = statement(`SELECT channel, agent, octet_length(welcome)::bigint, shared FROM welcomes
  WHERE channel = ANY($1::bigint[])`)
const GROUP_INFO_SIZES = statement(`SELECT channel, entry, octet_length(group_info)::bigint FROM group_infos
  WHERE channel = ANY($1::bigint[])`)
const GROUP_INFO_SIZE = statement(`SELECT octet_length(group_info)::bigint FROM group_infos
  WHERE channel = $1 AND entry = $2`)
// Welcomes of deleted channels remain for a while.
const OTHERS = statement(`SELECT w.agent, w.channel FROM welcomes w JOIN channels c ON c.number = w.channel
  WHERE w.agent = ANY($1::bytea[]) AND w.account = $2 AND w.mode = $3`)
const OF_AGENT = statement(`SELECT w.sequence, w.channel, octet_length(w.welcome)::bigint +
    coalesce((SELECT octet_length(group_info)::bigint FROM group_infos g WHERE g.channel = w.channel AND entry = w.shared), 0)
  FROM welcomes w JOIN channels c ON c.number = w.channel WHERE w.agent = $1 ORDER BY w.sequence`)
const SOME = statement(`SELECT sequence, channel, shared, record, welcome, checksum FROM welcomes
  WHERE sequence = ANY($1::bigint[])`)
const SHARED = statement(`SELECT g.channel, g.entry, g.group_info, g.checksum
  FROM unnest($1::bigint[], $2::bigint[]) u (channel, entry) JOIN group_infos g USING (channel, entry)`)
const GROUP_INFO = statement(`SELECT channel, entry, group_info, checksum FROM group_infos
  WHERE channel = $1 AND entry = $2`)
const OLD = statement(`SELECT c.id, w.agent FROM welcomes w JOIN channels c ON c.number = w.channel
  WHERE w.at <= $1 ORDER BY w.at, w.sequence LIMIT $2 FOR UPDATE OF c SKIP LOCKED`)
const PUT = statement(`INSERT INTO welcomes
    (sequence, channel, agent, account, mode, at, shared, record, welcome, checksum)
  SELECT sequence, channel, agent, account, mode, at, shared, record, substr($1::bytea, welcome, length), checksum
  FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::int[], $11::int[], $12::bigint[])
    u (sequence, channel, agent, account, mode, at, shared, record, welcome, length, checksum)`)
const PUT_COLUMNS = 11
const DROP = statement(`DELETE FROM welcomes USING unnest($1::bigint[], $2::bytea[]) u (channel, agent)
  WHERE welcomes.channel = u.channel AND welcomes.agent = u.agent`)
const PUT_GROUP_INFO = statement(
  'INSERT INTO group_infos (channel, entry, group_info, checksum) VALUES ($1, $2, $3, $4)',
)
const DROP_GROUP_INFO = statement('DELETE FROM group_infos WHERE channel = $1 AND entry = $2')

/** How much is fetched at a time. */
const FETCHED_BYTES = 524_288

/** A Welcome that the batch stores. */
interface NewRow {
  readonly sequence: number
  readonly channel: Channel
  readonly welcome: NewWelcome
  readonly at: Time
}

/** A stored Welcome: its size, and the commit whose GroupInfo it shares. */
interface Pending {
  readonly bytes: number
  readonly shared: number | null
}

/** A Welcome of an agent, in order. */
interface Listed {
  readonly sequence: number
  readonly size: number
}

type WelcomeRow = [channel: number, shared: number | null, record: string, secrets: Uint8Array]

export class WelcomeTable implements WelcomeRows, Table {
  readonly #transaction: Transaction
  readonly #channels: ChannelTable
  readonly #facts = new Facts()
  /** Numbers reserved for this transaction, under the locks of the agents. */
  #sequences: number[] = []
  #used = 0
  /** The last listing that was requested. */
  #listed: readonly Listed[] = []
  /** By channel number and agent. */
  readonly #put = new Map<string, NewRow>()
  readonly #dropped = new Map<
    string,
    { readonly number: number; readonly agent: AgentId; readonly shared: number | null }
  >()
  /** By channel number and index; undefined: deleted. */
  readonly #groupInfos = new Map<
    string,
    { readonly number: number; readonly index: number; readonly bytes?: Uint8Array }
  >()

  constructor(transaction: Transaction, channels: ChannelTable) {
    this.#transaction = transaction
    this.#channels = channels
  }

  begin(): void {
    this.#facts.clear()
    this.#sequences = []
    this.rewind()
  }

  rewind(): void {
    this.#used = 0
    this.#put.clear()
    this.#dropped.clear()
    this.#groupInfos.clear()
  }

  /** Reserves sequence numbers. The agents they are for must be locked: an agent's Welcomes are in commit order. */
  async reserve(count: number): Promise<void> {
    if (count <= this.#sequences.length) return
    const rows = await ask(this.#transaction, SEQUENCES, [count - this.#sequences.length])
    this.#sequences.push(...rows.map(([sequence]) => sequence as number))
  }

  put(channel: Channel, welcome: NewWelcome, at: Time): void {
    const sequence = this.#sequences[this.#used]
    if (sequence === undefined) throw new Missing(() => this.reserve(this.#sequences.length + 1))
    this.#used += 1
    this.#put.set(keyOf(channel, welcome.agent), { sequence, channel, welcome, at })
  }

  drop(channel: Channel, agent: AgentId): DroppedWelcome | undefined {
    const key = keyOf(channel, agent)
    const own = this.#put.get(key)
    if (own) {
      this.#put.delete(key)
      const { welcome, shares, position } = own.welcome
      return { bytes: welcome.length, shared: shares ? position.index : undefined }
    }
    const pending = this.#pending(channel.number).get(agent)
    if (!pending || this.#dropped.has(key)) return undefined
    const { bytes, shared } = pending
    this.#dropped.set(key, { number: channel.number, agent, shared })
    return { bytes, shared: shared ?? undefined }
  }

  putGroupInfo({ number }: Channel, index: number, bytes: Uint8Array): void {
    this.#groupInfos.set(`${number} ${index}`, { number, index, bytes })
  }

  dropGroupInfo({ number }: Channel, index: number): number {
    const own = [...this.#put.values()].some(
      ({ channel, welcome }) => channel.number === number && welcome.shares && welcome.position.index === index,
    )
    if (own) return 0
    for (const [agent, { shared }] of this.#pending(number)) {
      if (shared === index && !this.#dropped.has(`${number} ${agent}`)) return 0
    }
    const key = `${number} ${index}`
    const changed = this.#groupInfos.get(key)
    const bytes = changed ? (changed.bytes?.length ?? 0) : this.#groupInfoSize(number, index)
    this.#groupInfos.set(key, { number, index })
    return bytes
  }

  count({ number, account }: Channel, agent: AgentId): number {
    const { id, mode } = account
    const stored = this.#facts.get(othersKey(account, agent)) as readonly number[] | undefined
    if (!stored) throw new Missing(() => this.fetchOthers(account, [agent]))
    const others = new Set(stored)
    for (const dropped of this.#dropped.values()) if (dropped.agent === agent) others.delete(dropped.number)
    for (const { channel, welcome } of this.#put.values()) {
      const { account } = channel
      if (welcome.agent === agent && account.id === id && account.mode === mode) others.add(channel.number)
    }
    return [...others].filter((other) => other !== number && this.#channels.isLive({ number: other })).length
  }

  *of(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }> {
    const rows = this.#facts.need(`of ${agent}`, () => ask(this.#transaction, OF_AGENT, [bytea(agent)]))
    const stored = rows
      .filter(([, channel]) => !this.#dropped.has(`${channel as number} ${agent}`))
      .map(
        ([sequence, channel, size]) => ({ sequence, channel, size }) as Record<'sequence' | 'channel' | 'size', number>,
      )
    const own = [...this.#put.values()]
      .filter(({ welcome }) => welcome.agent === agent)
      .map((row) => ({ sequence: row.sequence, channel: row.channel.number, size: this.#sizeOf(row) }))
    const all = [...stored, ...own].filter(
      ({ sequence, channel: number }) => sequence > after && this.#channels.isLive({ number }),
    )
    this.#listed = all.sort((one, other) => one.sequence - other.sequence)
    for (const { sequence, size } of this.#listed) yield { sequence, size }
  }

  get(sequence: number): StoredWelcome {
    for (const row of this.#put.values()) if (row.sequence === sequence) return this.#delivered(row)
    const listed = this.#listed
    if (!this.#facts.has(welcomeKey(sequence))) throw new Missing(() => this.#fetch(sequence, listed))
    const row = this.#facts.get(welcomeKey(sequence)) as Row | undefined
    this.#demand(row, 'a Welcome')
    const [channel, shared, record, secrets] = intact(row, `Welcome ${sequence}`) as WelcomeRow
    const welcome = shared === null ? secrets : Buffer.concat([secrets, this.#groupInfo(channel, shared)])
    return { ...(fromJson(record) as Omit<StoredWelcome, 'welcome' | 'sequence'>), welcome, sequence }
  }

  /** Reads Welcomes from before a time, and locks their channels unless others have. */
  async readOld(since: Time, limit: number): Promise<OldWelcome[]> {
    const rows = (await ask(this.#transaction, OLD, [since, limit])) as [Uint8Array, Uint8Array][]
    return rows.map(([channel, agent]) => ({ channel: toHex(channel), agent: toHex(agent) }))
  }

  /** Reads the pending Welcomes of channels, and the sizes of the GroupInfos they share. */
  async fetchPending(channels: readonly number[]): Promise<void> {
    const unknown = [...new Set(channels)].filter((number) => !this.#facts.has(pendingKey(number)))
    if (unknown.length === 0) return
    const [pending, sizes] = await Promise.all([
      ask(this.#transaction, PENDING, [unknown]),
      ask(this.#transaction, GROUP_INFO_SIZES, [unknown]),
    ])
    const found = new Map(unknown.map((number) => [number, new Map<AgentId, Pending>()]))
    for (const [number, agent, bytes, shared] of pending as [number, Uint8Array, number, number | null][]) {
      found.get(number)?.set(toHex(agent), { bytes, shared })
    }
    for (const [number, all] of found) this.#facts.set(pendingKey(number), all)
    for (const [number, index, bytes] of sizes) this.#facts.set(sizeKey(number as number, index as number), [[bytes]])
  }

  /** Reads in which channels of an account agents have pending Welcomes. */
  async fetchOthers(account: Account, agents: readonly AgentId[]): Promise<void> {
    const unknown = agents.filter((agent) => !this.#facts.has(othersKey(account, agent)))
    if (unknown.length === 0) return
    const found = new Map<AgentId, number[]>(unknown.map((agent) => [agent, []]))
    const rows = await ask(this.#transaction, OTHERS, [unknown.map(bytea), account.id, account.mode])
    for (const [agent, channel] of rows) found.get(toHex(agent as Uint8Array))?.push(channel as number)
    for (const [agent, channels] of found) this.#facts.set(othersKey(account, agent), channels)
  }

  write(): void {
    const dropped = [...this.#dropped.values()].map(({ number, agent }) => [number, bytea(agent)])
    if (dropped.length > 0) send(this.#transaction, DROP, columns(dropped, 2))
    for (const { number, index, bytes } of this.#groupInfos.values()) {
      if (bytes) send(this.#transaction, PUT_GROUP_INFO, sealed([number, index, bytes]))
      else send(this.#transaction, DROP_GROUP_INFO, [number, index])
    }
    const blob = new Blob()
    const rows = [...this.#put.values()].map(({ sequence, channel, welcome: fields, at }) => {
      const { welcome, shares, ...record } = fields
      const { number, account } = channel
      const [shared, text] = [shares ? record.position.index : null, toJson(record)]
      const place = [sequence, number, bytea(record.agent), account.id, account.mode, at, shared, text]
      return [...place, blob.put(welcome), welcome.length, checksum([number, shared, text, welcome])]
    })
    if (rows.length > 0) send(this.#transaction, PUT, [blob.finish(), ...columns(rows, PUT_COLUMNS)])
  }

  /** The channel is deleted: its rows are purged later. */
  dropChannel({ number }: Channel): void {
    for (const [key, { channel }] of this.#put) if (channel.number === number) this.#put.delete(key)
    for (const [key, each] of this.#groupInfos) if (each.number === number) this.#groupInfos.delete(key)
  }

  /** Reads a Welcome and those listed after it, up to a number of bytes, with the GroupInfos they share. */
  async #fetch(sequence: number, listed: readonly Listed[]): Promise<void> {
    const wanted = [sequence]
    let bytes = 0
    for (const next of listed) {
      if (next.sequence <= sequence) continue
      bytes += next.size
      if (bytes > FETCHED_BYTES) break
      wanted.push(next.sequence)
    }
    for (const each of wanted) this.#facts.set(welcomeKey(each), undefined)
    const shared = new Map<string, readonly [channel: number, entry: number]>()
    for (const [at, ...row] of await ask(this.#transaction, SOME, [wanted])) {
      this.#facts.set(welcomeKey(at as number), row)
      const [channel, entry] = row as [number, number | null]
      if (entry !== null) shared.set(groupInfoKey(channel, entry), [channel, entry])
    }
    if (shared.size === 0) return
    const places = [...shared.values()]
    const asked = [places.map(([channel]) => channel), places.map(([, entry]) => entry)]
    for (const key of shared.keys()) this.#facts.set(key, [])
    for (const row of await ask(this.#transaction, SHARED, asked)) {
      this.#facts.set(groupInfoKey(row[0] as number, row[1] as number), [row])
    }
  }

  #pending(number: number): ReadonlyMap<AgentId, Pending> {
    const known = this.#facts.get(pendingKey(number)) as ReadonlyMap<AgentId, Pending> | undefined
    if (!known) throw new Missing(() => this.fetchPending([number]))
    return known
  }

  #groupInfoSize(number: number, index: number): number {
    const [row] = this.#facts.need(sizeKey(number, index), () =>
      ask(this.#transaction, GROUP_INFO_SIZE, [number, index]),
    )
    return (row?.[0] as number | undefined) ?? 0
  }

  #groupInfo(number: number, index: number): Uint8Array {
    const changed = this.#groupInfos.get(`${number} ${index}`)
    if (changed?.bytes) return changed.bytes
    const [row] = this.#facts.need(groupInfoKey(number, index), () =>
      ask(this.#transaction, GROUP_INFO, [number, index]),
    )
    this.#demand(row, 'a GroupInfo')
    return (intact(row, `the GroupInfo of commit ${index}`) as [number, number, Uint8Array])[2]
  }

  /**
   * In a transaction that writes, each statement sees a different moment: a missing row means damage only in one that
   * reads.
   */
  #demand(row: unknown, what: string): void {
    if (row === undefined && this.#transaction.locks) throw new Stale(what)
  }

  #sizeOf({ channel, welcome: { welcome, shares, position } }: NewRow): number {
    return welcome.length + (shares ? this.#groupInfo(channel.number, position.index).length : 0)
  }

  #delivered({ channel, sequence, welcome: fields }: NewRow): StoredWelcome {
    const { shares, ...stored } = fields
    if (!shares) return { ...stored, sequence }
    const groupInfo = this.#groupInfo(channel.number, stored.position.index)
    return { ...stored, welcome: Buffer.concat([stored.welcome, groupInfo]), sequence }
  }
}

function welcomeKey(sequence: number): string {
  return `welcome ${sequence}`
}

function groupInfoKey(channel: number, index: number): string {
  return `group info ${channel} ${index}`
}

function pendingKey(channel: number): string {
  return `pending ${channel}`
}

function sizeKey(channel: number, index: number): string {
  return `size ${channel} ${index}`
}

function othersKey({ id, mode }: Account, agent: AgentId): string {
  return `others ${agent} ${mode} ${id}`
}

function keyOf({ number }: Channel, agent: AgentId): string {
  return `${number} ${agent}`
}
