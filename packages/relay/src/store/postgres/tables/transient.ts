/** Join requests, used nonces and notices. Join requests are changed only by whoever holds the lock of their channel. */
import { toHex } from '@static/protocol'
import type { AgentId, JoinRequest, StoreEvent, Time } from '../../../ports.ts'
import type { JoinHeader, Notices, TransientRows } from '../../ledger/transient-rows.ts'
import { intact, sealed } from '../../sqlite/checksum.ts'
import { fromJson, toJson } from '../../sqlite/records.ts'
import { Facts, Missing, Stale, type Table } from '../facts.ts'
import { type Row, statement } from '../session.ts'
import { type Transaction, ask, bytea, send } from '../write.ts'

/** Maximum number of rows of each table that one sweep deletes. */
const SWEEP_ROWS = 2048

const JOINS = statement(`SELECT invite, channel, agent, until, octet_length(box)::bigint, given FROM joins
  WHERE owner = $1 ORDER BY number`)
const BOX = statement('SELECT owner, invite, agent, box, checksum FROM joins WHERE owner = $1')
const PUT_JOIN = statement(`INSERT INTO joins (channel, until, owner, invite, agent, box, checksum)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`)
const GIVE_JOIN = statement('UPDATE joins SET given = $1 WHERE invite = $2 AND agent = $3')
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
const POSITION = statement('SELECT pg_snapshot_xmin(pg_current_snapshot())::text')
// All that committed since the position's snapshot was taken are from transactions that it could not see.
const NOTICES = statement(`SELECT xid::text, number, event FROM notices
  WHERE (xid, number) > ($1::xid8, $2::bigint) ORDER BY xid, number LIMIT $3`)

/** A position: everything before `xid` is known, and on this page the notices up to the given one. */
interface NoticePosition {
  /** Where the next round starts. */
  readonly next: string
  readonly xid: string
  readonly number: number
}

type JoinRow = [string, Uint8Array, Uint8Array, Time, number, string | null]

/** The short-lived rows of a transaction. */
export class TransientTable implements TransientRows, Table {
  readonly #transaction: Transaction
  readonly #facts = new Facts()
  /** Whether each nonce was stored by this transaction. */
  readonly #nonces = new Map<string, boolean>()
  readonly #used = new Set<string>()
  readonly #put = new Map<string, { readonly join: JoinRequest; readonly given: string | undefined }>()
  readonly #given = new Map<string, readonly [session: string, invite: string, agent: AgentId]>()
  readonly #dropped = new Map<string, readonly [invite: string, agent: AgentId]>()
  #events: StoreEvent[] = []
  #expiry: Time | undefined

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
    this.#nonces.clear()
    this.rewind()
  }

  rewind(): void {
    for (const changes of [this.#used, this.#put, this.#given, this.#dropped]) changes.clear()
    this.#events = []
    this.#expiry = undefined
  }

  joinsOf(owner: AgentId): readonly JoinHeader[] {
    const rows = this.#facts.need(`joins ${owner}`, () => ask(this.#transaction, JOINS, [bytea(owner)]))
    const stored = (rows as JoinRow[])
      .map(([invite, channel, agent, until, size, given]) => {
        const key = keyOf(invite, toHex(agent))
        const session = this.#given.get(key)?.[0] ?? given ?? undefined
        return { invite, channel: toHex(channel), agent: toHex(agent), until, size, given: session }
      })
      .filter(({ invite, agent }) => !this.#dropped.has(keyOf(invite, agent)))
    const own = [...this.#put.values()].filter(({ join }) => join.owner === owner)
    return [
      ...stored,
      ...own.map(({ join: { invite, channel, agent, until, box }, given }) => {
        return { invite, channel, agent, until, size: box.length, given }
      }),
    ]
  }

  joinBox(owner: AgentId, invite: string, agent: AgentId): Uint8Array {
    const own = this.#put.get(keyOf(invite, agent))
    if (own) return own.join.box
    const rows = this.#facts.need(`boxes ${owner}`, () => ask(this.#transaction, BOX, [bytea(owner)]))
    const row = rows.find(([, id, joiner]) => id === invite && toHex(joiner as Uint8Array) === agent)
    // The owner's other channels are not locked.
    if (!row) throw new Stale('a join request')
    return (intact(row, 'a join request') as [Uint8Array, string, Uint8Array, Uint8Array])[3]
  }

  putJoin(join: JoinRequest): void {
    this.#put.set(keyOf(join.invite, join.agent), { join, given: undefined })
  }

  giveJoin(_owner: AgentId, invite: string, agent: AgentId, session: string): void {
    const key = keyOf(invite, agent)
    const own = this.#put.get(key)
    if (own) this.#put.set(key, { join: own.join, given: session })
    this.#given.set(key, [session, invite, agent])
  }

  dropJoin(_owner: AgentId, invite: string, agent: AgentId): void {
    const key = keyOf(invite, agent)
    this.#put.delete(key)
    this.#given.delete(key)
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
    // The snapshot is older than the page, so what commits in between is found again by the next round.
    const [row] = this.#facts.need('position', () => ask(this.#transaction, POSITION, []))
    const now = String(row?.[0])
    if (after === undefined)
      return { events: [], position: positionText({ next: now, xid: now, number: 0 }), more: false }
    const { next, xid, number } = readPosition(after)
    const rows = this.#facts.need(`notices ${after} ${limit}`, () =>
      ask(this.#transaction, NOTICES, [xid, number, limit]),
    )
    const events = rows.map(([, , event]) => fromJson(event as string) as StoreEvent)
    const last = rows.at(-1)
    // `next` is that of the first page of a round; 0 begins one.
    const round = number === 0 ? now : next
    if (rows.length < limit || !last) {
      return { events, position: positionText({ next: round, xid: round, number: 0 }), more: false }
    }
    return {
      events,
      position: positionText({ next: round, xid: String(last[0]), number: last[1] as number }),
      more: true,
    }
  }

  expire(now: Time): void {
    this.#expiry = now
  }

  write(): void {
    for (const [invite, agent] of this.#dropped.values()) {
      send(this.#transaction, DROP_JOIN, [invite, bytea(agent)])
    }
    for (const { join } of this.#put.values()) send(this.#transaction, PUT_JOIN, joinRow(join))
    for (const [session, invite, agent] of this.#given.values()) {
      send(this.#transaction, GIVE_JOIN, [session, invite, bytea(agent)])
    }
    if (this.#events.length > 0) send(this.#transaction, PUT_NOTICES, [this.#events.map(toJson)])
    if (this.#expiry === undefined) return
    send(this.#transaction, EXPIRE_JOINS, [this.#expiry, SWEEP_ROWS])
    send(this.#transaction, EXPIRE_NONCES, [this.#expiry, SWEEP_ROWS])
    send(this.#transaction, EXPIRE_NOTICES, [SWEEP_ROWS])
  }
}

function joinRow({ invite, channel, owner, agent, box, until }: JoinRequest): Row {
  return [bytea(channel), until, ...sealed([bytea(owner), invite, bytea(agent), box])]
}

function keyOf(invite: string, agent: AgentId): string {
  return `${invite} ${agent}`
}

function positionText({ next, xid, number }: NoticePosition): string {
  return `${next}.${xid}.${number}`
}

function readPosition(text: string): NoticePosition {
  const [next = '0', xid = '0', number = '0'] = text.split('.')
  return { next, xid, number: Number(number) }
}
