/**
 * Join requests: the rows that a transaction has read, and the changes of its batch. They are changed only under their
 * channel's lock. Sums and numbers cover the stored rows; the header of each row that the batch drops is known, so that
 * it can be subtracted.
 */
import { toHex } from '@static/protocol'
import type { AgentId, ChannelId, JoinRequest, Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import {
  type JoinHeader,
  type JoinKey,
  type JoinPlace,
  type JoinQueue,
  type JoinRows,
  type JoinWeight,
  queueOf,
} from '../../ledger/rows/joins.ts'
import { Facts, Missing, Stale, type Table } from '../facts.ts'
import { type Row, type Statement, statement } from '../session.ts'
import { type Transaction, ask, bytea, send } from '../write.ts'

/** Maximum number of rows that one sweep deletes. */
const SWEEP_ROWS = 2048

const HEADER = 'SELECT number, queue, invite, channel, agent, until, octet_length(box)::bigint FROM joins'
const WEIGHT = 'count(*), coalesce(sum(octet_length(box)), 0)::bigint FROM joins WHERE queue = $1 AND until > $2'
const PLACE = 'WHERE channel = $1 AND queue = $2 AND until > $3'

const RESERVE = statement(`SELECT nextval(pg_get_serial_sequence('joins', 'number')) FROM generate_series(1, $1::int)`)
const GET = statement(`${HEADER} WHERE (invite, agent) IN (SELECT * FROM unnest($1::text[], $2::bytea[]))`)
const AFTER = statement(`${HEADER} ${PLACE} AND number > $4 ORDER BY number LIMIT $5`)
// One row, because each row of a result takes longer than its number.
const NUMBERS = statement(
  `SELECT coalesce(json_agg(number ORDER BY number), '[]') FROM joins ${PLACE} AND number <= $4`,
)
const BOXES = statement(
  'SELECT number, queue, invite, agent, box, checksum FROM joins WHERE number = ANY($1::bigint[])',
)
const WEIGH = statement(`SELECT ${WEIGHT}`)
const WEIGH_FOR = statement(`SELECT ${WEIGHT} AND invite = $3`)
const WEIGHTS = statement(`SELECT invite, ${WEIGHT} GROUP BY invite`)
const TOTAL = statement('SELECT count(*) FROM joins WHERE queue = $1')
const OLDEST = statement(`${HEADER} WHERE queue = $1 ORDER BY number LIMIT $2`)
const FOR_INVITES = statement(`${HEADER} WHERE queue = $1 AND invite = ANY($2::text[]) ORDER BY number`)
const OF_AGENT = statement(`${HEADER} WHERE channel = $1 AND agent = $2 ORDER BY number`)
const IN_CHANNEL = statement(`${HEADER} WHERE channel = $1 ORDER BY queue, number`)
const PUT = statement(`INSERT INTO joins (number, channel, until, queue, invite, agent, box, checksum)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`)
const DROP = statement('DELETE FROM joins WHERE (invite, agent) IN (SELECT * FROM unnest($1::text[], $2::bytea[]))')
const EXPIRE = statement(`DELETE FROM joins WHERE number IN
  (SELECT number FROM joins WHERE until <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`)

type HeaderRow = [number, Uint8Array, string, Uint8Array, Uint8Array, Time, number]

/** A request that the batch stores. */
interface NewJoin extends JoinHeader {
  readonly box: Uint8Array
}

/** A sum of stored rows. */
interface Weighed extends JoinWeight {
  /** Excludes requests that had expired by then. Later calls of the batch use it unchanged. */
  readonly now: Time
}

export class JoinTable implements JoinRows, Table {
  readonly #transaction: Transaction
  readonly #facts = new Facts()
  /** Numbers reserved for this transaction, under the locks of the channels. */
  #numbers: number[] = []
  #numbered = 0
  /** In the order of their numbers. */
  readonly #put = new Map<string, NewJoin>()
  /** The stored rows that the batch deletes. */
  readonly #dropped = new Map<string, JoinHeader>()
  #expiry: Time | undefined

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
    this.#numbers = []
    this.rewind()
  }

  rewind(): void {
    this.#put.clear()
    this.#dropped.clear()
    this.#numbered = 0
    this.#expiry = undefined
  }

  get(invite: string, agent: AgentId): JoinHeader | undefined {
    const key = keyOf({ invite, agent })
    return this.#put.get(key) ?? (this.#dropped.has(key) ? undefined : this.#stored({ invite, agent }))
  }

  /** Reads requests that are not known. Their channels must be locked. */
  async fetch(keys: readonly JoinKey[]): Promise<void> {
    const unknown = keys.filter((key) => !this.#facts.has(keyOf(key)))
    if (unknown.length === 0) return
    const rows = await ask(this.#transaction, GET, columnsOf(unknown))
    for (const key of unknown) this.#facts.set(keyOf(key), undefined)
    this.#learn(rows)
  }

  after(place: JoinPlace, after: number, limit: number): readonly JoinHeader[] {
    const { queue, channel, now } = place
    // The rows that the batch deletes may be among the first.
    const most = limit + rounded(this.#dropped.size)
    const values = [bytea(channel), bytea(queue), now, after, most]
    const rows = this.#headers(`after ${channel} ${queue} ${now} ${after} ${most}`, AFTER, values)
    const own = this.#own((join) => isIn(join, place) && join.number > after)
    return [...rows, ...own].slice(0, limit)
  }

  numbers(place: JoinPlace, through: number): readonly number[] {
    const { queue, channel, now } = place
    const [[numbers] = []] = this.#facts.need(`numbers ${channel} ${queue} ${now} ${through}`, () =>
      ask(this.#transaction, NUMBERS, [bytea(channel), bytea(queue), now, through]),
    )
    const dropped = new Set([...this.#dropped.values()].map(({ number }) => number))
    const stored = (numbers as number[]).filter((number) => !dropped.has(number))
    const own = this.#own((join) => isIn(join, place) && join.number <= through)
    return [...stored, ...own.map(({ number }) => number)]
  }

  boxes(joins: readonly JoinHeader[]): readonly Uint8Array[] {
    const own = new Map([...this.#put.values()].map(({ number, box }) => [number, box]))
    const asked = joins.map(({ number }) => number).filter((number) => !own.has(number))
    if (asked.length === 0) return joins.map(({ number }) => own.get(number) as Uint8Array)
    const rows = this.#facts.need(`boxes ${asked.join(' ')}`, () => ask(this.#transaction, BOXES, [asked]))
    const stored = new Map(rows.map(([number, ...row]) => [number as number, row]))
    return joins.map(({ number }) => {
      const box = own.get(number)
      if (box) return box
      const row = stored.get(number)
      // Deleted by a sweep, which locks no channel.
      if (!row) throw new Stale('a join request')
      return (intact(row, 'a join request') as [Uint8Array, string, Uint8Array, Uint8Array])[3]
    })
  }

  weight(queue: JoinQueue, now: Time, invite?: string): JoinWeight {
    const weighed = this.#facts.need(`weight ${queue} ${invite ?? ''}`, async (): Promise<Weighed> => {
      const values = [bytea(queue), now]
      const [row] = await (invite === undefined
        ? ask(this.#transaction, WEIGH, values)
        : ask(this.#transaction, WEIGH_FOR, [...values, invite]))
      const [count, bytes] = row as [number, number]
      return { now, count, bytes }
    })
    const isFor = (join: JoinHeader): boolean => invite === undefined || join.invite === invite
    const isCounted = (join: JoinHeader): boolean => join.queue === queue && join.until > weighed.now && isFor(join)
    const { added, dropped } = this.#changes(isCounted)
    return {
      count: weighed.count + added.length - dropped.length,
      bytes: weighed.bytes + sizeOf(added) - sizeOf(dropped),
    }
  }

  weights(queue: JoinQueue, now: Time): ReadonlyMap<string, JoinWeight> {
    const fact = this.#facts.need(`weights ${queue}`, async () => {
      return { now, rows: await ask(this.#transaction, WEIGHTS, [bytea(queue), now]) }
    })
    const weights = new Map((fact.rows as [string, number, number][]).map(([invite, ...sums]) => [invite, sums]))
    const add = ({ invite, size }: JoinHeader, sign: number): void => {
      const [count, bytes] = weights.get(invite) ?? [0, 0]
      weights.set(invite, [count + sign, bytes + sign * size])
    }
    const { added, dropped } = this.#changes((join) => join.queue === queue && join.until > fact.now)
    for (const join of added) add(join, 1)
    for (const join of dropped) add(join, -1)
    const left = [...weights].filter(([, [count]]) => count > 0)
    return new Map(left.map(([invite, [count, bytes]]) => [invite, { count, bytes }]))
  }

  beyond(queue: JoinQueue, kept: number): readonly JoinKey[] {
    const [[total] = []] = this.#facts.need(`total ${queue}`, () => ask(this.#transaction, TOTAL, [bytea(queue)]))
    const { added, dropped } = this.#changes((join) => join.queue === queue)
    const excess = (total as number) + added.length - dropped.length - kept
    if (excess <= 0) return []
    const most = rounded(excess + dropped.length)
    const stored = this.#headers(`oldest ${queue} ${most}`, OLDEST, [bytea(queue), most])
    return [...stored, ...added].slice(0, excess)
  }

  forInvites(queue: JoinQueue, invites: readonly string[]): readonly JoinKey[] {
    const fact = `for ${queue} ${invites.join(' ')}`
    const stored = this.#headers(fact, FOR_INVITES, [bytea(queue), invites])
    return [...stored, ...this.#own((join) => join.queue === queue && invites.includes(join.invite))]
  }

  ofAgent(channel: ChannelId, agent: AgentId): readonly JoinKey[] {
    const stored = this.#headers(`of ${channel} ${agent}`, OF_AGENT, [bytea(channel), bytea(agent)])
    return [...stored, ...this.#own((join) => join.channel === channel && join.agent === agent)]
  }

  inChannel(channel: ChannelId): readonly JoinKey[] {
    const stored = this.#headers(`in ${channel}`, IN_CHANNEL, [bytea(channel)])
    return [...stored, ...this.#own((join) => join.channel === channel)]
  }

  /** Reserves numbers. The channels they are for must be locked: a channel's requests are in commit order. */
  async reserve(count: number): Promise<void> {
    if (count <= this.#numbers.length) return
    const rows = await ask(this.#transaction, RESERVE, [count - this.#numbers.length])
    this.#numbers.push(...rows.map(([number]) => number as number))
  }

  put(join: JoinRequest): void {
    const number = this.#numbers[this.#numbered]
    if (number === undefined) throw new Missing(() => this.reserve(this.#numbers.length + 1))
    this.#numbered += 1
    const { invite, channel, agent, box, until } = join
    this.#put.set(keyOf(join), { number, queue: queueOf(join), invite, channel, agent, until, size: box.length, box })
  }

  drop(key: JoinKey): void {
    const stored = this.#stored(key)
    if (stored) this.#dropped.set(keyOf(key), stored)
    this.#put.delete(keyOf(key))
  }

  expire(now: Time): void {
    this.#expiry = now
  }

  write(): void {
    if (this.#dropped.size > 0) send(this.#transaction, DROP, columnsOf([...this.#dropped.values()]))
    for (const join of this.#put.values()) send(this.#transaction, PUT, rowOf(join))
    if (this.#expiry !== undefined) send(this.#transaction, EXPIRE, [this.#expiry, SWEEP_ROWS])
  }

  #stored(key: JoinKey): JoinHeader | undefined {
    if (!this.#facts.has(keyOf(key))) throw new Missing(() => this.fetch([key]))
    return this.#facts.get(keyOf(key)) as JoinHeader | undefined
  }

  /** The requests that the batch stores, oldest first. */
  #own(isMeant: (join: JoinHeader) => boolean): readonly JoinHeader[] {
    return [...this.#put.values()].filter(isMeant)
  }

  #headers(fact: string, sql: Statement, values: readonly unknown[]): readonly JoinHeader[] {
    return this.#left(this.#facts.need(fact, () => ask(this.#transaction, sql, values)))
  }

  /** Stored requests that the batch does not delete. */
  #left(rows: readonly Row[]): readonly JoinHeader[] {
    return this.#learn(rows).filter((join) => !this.#dropped.has(keyOf(join)))
  }

  /** Remembers rows: the batch may delete them. */
  #learn(rows: readonly Row[]): readonly JoinHeader[] {
    const headers = (rows as readonly HeaderRow[]).map(headerOf)
    for (const header of headers) this.#facts.set(keyOf(header), header)
    return headers
  }

  #changes(isMeant: (join: JoinHeader) => boolean): Readonly<Record<'added' | 'dropped', readonly JoinHeader[]>> {
    return { added: this.#own(isMeant), dropped: [...this.#dropped.values()].filter(isMeant) }
  }
}

function headerOf([number, queue, invite, channel, agent, until, size]: HeaderRow): JoinHeader {
  return { number, queue: toHex(queue), invite, channel: toHex(channel), agent: toHex(agent), until, size }
}

function rowOf({ number, queue, invite, channel, agent, box, until }: NewJoin): Row {
  return [number, bytea(channel), until, ...sealed([bytea(queue), invite, bytea(agent), box])]
}

function columnsOf(keys: readonly JoinKey[]): [string[], Buffer[]] {
  return [keys.map(({ invite }) => invite), keys.map(({ agent }) => bytea(agent))]
}

/**
 * Rounded up to a power of two: otherwise a batch whose calls each ask for one more row would be decided again for each
 * of them.
 */
function rounded(rows: number): number {
  return rows === 0 ? 0 : 2 ** Math.ceil(Math.log2(rows))
}

function sizeOf(joins: readonly JoinHeader[]): number {
  return joins.reduce((sum, { size }) => sum + size, 0)
}

function isIn({ queue, channel, until }: JoinHeader, place: JoinPlace): boolean {
  return queue === place.queue && channel === place.channel && until > place.now
}

function keyOf({ invite, agent }: JoinKey): string {
  return `join ${invite} ${agent}`
}
