/** Join requests, used nonces and notices. */
import { toHex } from '@static/protocol'
import type { StoreEvent, Time } from '../../../ports.ts'
import { checksum, damaged } from '../../checksum.ts'
import type { Notices, TransientRows } from '../../ledger/rows/transient.ts'
import { fromJson, toJson } from '../../records/json.ts'
import { Facts, Missing, type Table } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask, bytea, send } from '../write.ts'
import { JoinTable } from './joins.ts'

/** Maximum number of rows of each table that one sweep deletes. */
const SWEEP_ROWS = 2048

// Waits for another node that is using the same nonce at this moment.
const USE_NONCES = statement(`INSERT INTO nonces SELECT * FROM unnest($1::bytea[], $2::bigint[])
  ON CONFLICT DO NOTHING RETURNING nonce`)
const EXPIRE_NONCES = statement(`DELETE FROM nonces WHERE nonce IN
  (SELECT nonce FROM nonces WHERE until <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`)
const PUT_NOTICES = statement('INSERT INTO notices (event) SELECT * FROM unnest($1::text[])')
const EXPIRE_NOTICES = statement(`DELETE FROM notices WHERE (xid, number) IN (SELECT xid, number FROM notices
  WHERE at < clock_timestamp() - interval '1 minute' LIMIT $1 FOR UPDATE SKIP LOCKED)`)
const POSITION = statement('SELECT pg_current_snapshot()::text')
// A round finds what the previous round's snapshot could not see and the snapshot of its own first page can: each
// notice once, however long other transactions run. In one statement, so that the snapshot matches the rows.
const NOTICES = statement(`SELECT s.now::text, n.xid::text, n.number, n.event
  FROM (SELECT pg_current_snapshot() AS now) s
  LEFT JOIN LATERAL (SELECT xid, number, event FROM notices
    WHERE xid >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, $1::pg_snapshot)
      AND pg_visible_in_snapshot(xid, coalesce($2::pg_snapshot, s.now)) AND (xid, number) > ($3::xid8, $4::bigint)
    ORDER BY xid, number LIMIT $5) n ON true ORDER BY n.xid, n.number`)

/** A position between two rounds, or between two pages of a round. Snapshots are in PostgreSQL's own form. */
interface NoticePosition {
  /** Everything visible to this snapshot is known. */
  readonly known: string
  /** The snapshot of the round's first page, and the last notice of the page before. */
  readonly page?: { readonly now: string; readonly xid: string; readonly number: number }
}

export class TransientTable implements TransientRows, Table {
  readonly joins: JoinTable
  readonly #transaction: Transaction
  readonly #facts = new Facts()
  /** Whether each nonce was stored by this transaction. */
  readonly #nonces = new Map<string, boolean>()
  readonly #used = new Set<string>()
  #events: StoreEvent[] = []
  #expiry: Time | undefined

  constructor(transaction: Transaction) {
    this.joins = new JoinTable(transaction)
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
    this.#nonces.clear()
    this.joins.begin()
    this.rewind()
  }

  rewind(): void {
    this.joins.rewind()
    this.#used.clear()
    this.#events = []
    this.#expiry = undefined
  }

  useNonce(nonce: Uint8Array, until: Time): boolean {
    const key = toHex(nonce)
    const stored = this.#nonces.get(key)
    if (stored === undefined) throw new Missing(() => this.useNonces([{ nonce, until }]))
    if (!stored || this.#used.has(key)) return false
    this.#used.add(key)
    return true
  }

  /** Stores nonces right away: the ledger must know whether they were already there. */
  async useNonces(asked: readonly { readonly nonce: Uint8Array; readonly until: Time }[]): Promise<void> {
    const unknown = new Map<string, Time>()
    for (const { nonce, until } of asked) if (!this.#nonces.has(toHex(nonce))) unknown.set(toHex(nonce), until)
    if (unknown.size === 0) return
    // In order, so that two nodes cannot deadlock.
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
    this.joins.expire(now)
    this.#expiry = now
  }

  write(): void {
    this.joins.write()
    if (this.#events.length > 0) send(this.#transaction, PUT_NOTICES, [this.#events.map(noticeText)])
    if (this.#expiry === undefined) return
    send(this.#transaction, EXPIRE_NONCES, [this.#expiry, SWEEP_ROWS])
    send(this.#transaction, EXPIRE_NOTICES, [SWEEP_ROWS])
  }
}

/** Ends with its checksum, which nodes of the previous version ignore. */
function noticeText(event: StoreEvent): string {
  const text = toJson(event)
  return `${text.slice(0, -1)},"checksum":${checksum([text])}}`
}

function readNotice(stored: string): StoreEvent {
  const [, text = '', sum] = /^(.*),"checksum":(\d+)\}$/s.exec(stored) ?? []
  if (sum === undefined || Number(sum) !== checksum([`${text}}`])) throw damaged('a notice')
  return fromJson(`${text}}`) as StoreEvent
}
