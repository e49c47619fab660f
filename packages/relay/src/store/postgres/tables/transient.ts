/** Join requests, used nonces and notices. Join requests are changed only by whoever holds the lock of their channel. */
import { toHex } from '@static/protocol'
import type { AgentId, JoinRequest, StoreEvent, Time } from '../../../ports.ts'
import {
  type JoinHeader,
  type JoinQueue,
  type Notices,
  type TransientRows,
  queueOf,
} from '../../ledger/transient-rows.ts'
import { checksum, damaged, intact, sealed } from '../../sqlite/checksum.ts'
import { fromJson, toJson } from '../../sqlite/records.ts'
import { Facts, Missing, Stale, type Table } from '../facts.ts'
import { type Row, statement } from '../session.ts'
import { type Transaction, ask, bytea, send } from '../write.ts'

/** Maximum number of rows of each table that one sweep deletes. */
const SWEEP_ROWS = 2048

const NUMBERS = statement(`SELECT nextval(pg_get_serial_sequence('joins', 'number')) FROM generate_series(1, $1::int)`)
const JOINS = statement(`SELECT number, invite, channel, agent, until, octet_length(box)::bigint FROM joins
  WHERE queue = $1 ORDER BY number`)
const BOX = statement('SELECT queue, invite, agent, box, checksum FROM joins WHERE queue = $1')
const PUT_JOIN = statement(`INSERT INTO joins (number, channel, until, queue, invite, agent, box, checksum)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`)
const DROP_JOIN = statement('DELETE FROM joins WHERE invite = $1 AND agent = $2')
const EXPIRE_JOINS = statement(`DELETE FROM joins WHERE number IN
  (SELECT number FROM joins WHERE until <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`)
// Waits for another node that is just using the same nonce.
const USE_NONCES = statement(`INSERT INTO nonces SELECT * FROM unnest($1::bytea[], $2::bigint[])
  ON CONFLICT DO NOTHING RETURNING nonce`)
const EXPIRE_NONCES = statement(`DELETE FROM nonces WHERE nonce IN
  (SELECT nonce FROM nonces WHERE until <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`)
const PUT_NOTICES = statement('INSERT INTO notices (event) SELECT * FROM unnest($1::text[])')
const EXPIRE_NOTICES = statement(`DELETE FROM notices WHERE (xid, number) IN (SELECT xid, number FROM notices
  WHERE at < clock_timestamp() - interval '1 minute' LIMIT $1 FOR UPDATE SKIP LOCKED)`)
const POSITION = statement('SELECT pg_current_snapshot()::text')
// A round finds what the snapshot of the round before could not see, and the snapshot of its first page can: each notice
// once, however long other transactions run. In one statement, so that the snapshot is that of the rows.
const NOTICES = statement(`SELECT s.now::text, n.xid::text, n.number, n.event
  FROM (SELECT pg_current_snapshot() AS now) s
  LEFT JOIN LATERAL (SELECT xid, number, event FROM notices
    WHERE xid >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, $1::pg_snapshot)
      AND pg_visible_in_snapshot(xid, coalesce($2::pg_snapshot, s.now)) AND (xid, number) > ($3::xid8, $4::bigint)
    ORDER BY xid, number LIMIT $5) n ON true ORDER BY n.xid, n.number`)

/** A position between two rounds, or between two pages of a round. Snapshots are in PostgreSQL's own form. */
interface NoticePosition {
  /** What this snapshot could see is known. */
  readonly known: string
  /** The snapshot of the round's first page, and the last notice of the page before. */
  readonly page?: { readonly now: string; readonly xid: string; readonly number: number }
}

type JoinRow = [number, string, Uint8Array, Uint8Array, Time, number]

/** A request that the batch stores. */
interface NewJoin {
  readonly number: number
  readonly join: JoinRequest
}

/** The short-lived rows of a transaction. */
export class TransientTable implements TransientRows, Table {
  readonly #transaction: Transaction
  readonly #facts = new Facts()
  /** Whether each nonce was stored by this transaction. */
  readonly #nonces = new Map<string, boolean>()
  readonly #used = new Set<string>()
  /** Numbers reserved for this transaction, under the locks of the channels. */
  #numbers: number[] = []
  #numbered = 0
  readonly #put = new Map<string, NewJoin>()
  readonly #dropped = new Map<string, readonly [invite: string, agent: AgentId]>()
  #events: StoreEvent[] = []
  #expiry: Time | undefined

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
    this.#nonces.clear()
    this.#numbers = []
    this.rewind()
  }

  rewind(): void {
    for (const changes of [this.#used, this.#put, this.#dropped]) changes.clear()
    this.#numbered = 0
    this.#events = []
    this.#expiry = undefined
  }

  joinsOf(queue: JoinQueue): readonly JoinHeader[] {
    const rows = this.#facts.need(`joins ${queue}`, () => ask(this.#transaction, JOINS, [bytea(queue)]))
    const stored = (rows as JoinRow[])
      .map(([number, invite, channel, agent, until, size]) => {
        return { number, invite, channel: toHex(channel), agent: toHex(agent), until, size }
      })
      .filter(({ invite, agent }) => !this.#dropped.has(keyOf(invite, agent)))
    const own = [...this.#put.values()].filter(({ join }) => queueOf(join) === queue)
    return [
      ...stored,
      ...own.map(({ number, join: { invite, channel, agent, until, box } }) => {
        return { number, invite, channel, agent, until, size: box.length }
      }),
    ]
  }

  joinBox(queue: JoinQueue, invite: string, agent: AgentId): Uint8Array {
    const own = this.#put.get(keyOf(invite, agent))
    if (own) return own.join.box
    const rows = this.#facts.need(`boxes ${queue}`, () => ask(this.#transaction, BOX, [bytea(queue)]))
    const row = rows.find(([, id, joiner]) => id === invite && toHex(joiner as Uint8Array) === agent)
    // The owner's other channels are not locked.
    if (!row) throw new Stale('a join request')
    return (intact(row, 'a join request') as [Uint8Array, string, Uint8Array, Uint8Array])[3]
  }

  /** Reserves numbers. The channels they are for must be locked: a channel's requests are in commit order. */
  async reserve(count: number): Promise<void> {
    if (count <= this.#numbers.length) return
    const rows = await ask(this.#transaction, NUMBERS, [count - this.#numbers.length])
    this.#numbers.push(...rows.map(([number]) => number as number))
  }

  putJoin(join: JoinRequest): void {
    const number = this.#numbers[this.#numbered]
    if (number === undefined) throw new Missing(() => this.reserve(this.#numbers.length + 1))
    this.#numbered += 1
    this.#put.set(keyOf(join.invite, join.agent), { number, join })
  }

  dropJoin(invite: string, agent: AgentId): void {
    const key = keyOf(invite, agent)
    this.#put.delete(key)
    this.#dropped.set(key, [invite, agent])
  }

  useNonce(nonce: Uint8Array, until: Time): boolean {
    const key = toHex(nonce)
    const stored = this.#nonces.get(key)
    if (stored === undefined) throw new Missing(() => this.useNonces([{ nonce, until }]))
    if (!stored || this.#used.has(key)) return false
    this.#used.add(key)
    return true
  }

  /** Stores nonces at once: whether they are there already must be known before the ledger decides. */
  async useNonces(asked: readonly { readonly nonce: Uint8Array; readonly until: Time }[]): Promise<void> {
    const unknown = new Map<string, Time>()
    for (const { nonce, until } of asked) if (!this.#nonces.has(toHex(nonce))) unknown.set(toHex(nonce), until)
    if (unknown.size === 0) return
    // In order, so that two nodes cannot wait for each other.
    const order = [...unknown].sort(([one], [other]) => (one < other ? -1 : 1))
    const values = [order.map(([nonce]) => bytea(nonce)), order.map(([, until]) => until)]
    const rows = await ask(this.#transaction, USE_NONCES, values)
    for (const [nonce] of order) this.#nonces.set(nonce, false)
    for (const [nonce] of rows) this.#nonces.set(toHex(nonce as Uint8Array), true)
  }

  addNotice(event: StoreEvent): void {
    this.#events.push(event)
  }

  notices(after: string | undefined, limit: number): Notices {
    if (after === undefined) {
      const [row] = this.#facts.need('position', () => ask(this.#transaction, POSITION, []))
      return { events: [], position: toJson({ known: String(row?.[0]) } satisfies NoticePosition), more: false }
    }
    const { known, page } = JSON.parse(after) as NoticePosition
    const rows = this.#facts.need(`notices ${after} ${limit}`, () =>
      ask(this.#transaction, NOTICES, [known, page?.now ?? null, page?.xid ?? '0', page?.number ?? 0, limit]),
    )
    const now = page?.now ?? String(rows[0]?.[0])
    const found = rows.filter(([, xid]) => xid !== null)
    const last = found.at(-1)
    const more = last !== undefined && found.length === limit
    const next: NoticePosition = more
      ? { known, page: { now, xid: String(last[1]), number: last[2] as number } }
      : { known: now }
    return { events: found.map((row) => readNotice(row[3] as string)), position: toJson(next), more }
  }

  expire(now: Time): void {
    this.#expiry = now
  }

  write(): void {
    for (const [invite, agent] of this.#dropped.values()) {
      send(this.#transaction, DROP_JOIN, [invite, bytea(agent)])
    }
    for (const each of this.#put.values()) send(this.#transaction, PUT_JOIN, joinRow(each))
    if (this.#events.length > 0) send(this.#transaction, PUT_NOTICES, [this.#events.map(noticeText)])
    if (this.#expiry === undefined) return
    send(this.#transaction, EXPIRE_JOINS, [this.#expiry, SWEEP_ROWS])
    send(this.#transaction, EXPIRE_NONCES, [this.#expiry, SWEEP_ROWS])
    send(this.#transaction, EXPIRE_NOTICES, [SWEEP_ROWS])
  }
}

function joinRow({ number, join }: NewJoin): Row {
  const { invite, channel, agent, box, until } = join
  return [number, bytea(channel), until, ...sealed([bytea(queueOf(join)), invite, bytea(agent), box])]
}

function keyOf(invite: string, agent: AgentId): string {
  return `${invite} ${agent}`
}

/** Ends with its checksum, which nodes of the version before ignore. */
function noticeText(event: StoreEvent): string {
  const text = toJson(event)
  return `${text.slice(0, -1)},"checksum":${checksum([text])}}`
}

function readNotice(stored: string): StoreEvent {
  const [, text = '', sum] = /^(.*),"checksum":(\d+)\}$/s.exec(stored) ?? []
  if (sum === undefined || Number(sum) !== checksum([`${text}}`])) throw damaged('a notice')
  return fromJson(`${text}}`) as StoreEvent
}
