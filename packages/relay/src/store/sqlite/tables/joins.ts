/** Join requests in SQLite. Counts and numbers come from an index alone, because the rows contain the boxes. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { fromHex, toHex } from '@static/protocol'
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
import { type Prepared, prepared } from '../statements.ts'

/** Maximum number of rows that one sweep deletes. */
const SWEEP_ROWS = 2048

const HEADER = 'SELECT number, queue, invite, channel, agent, until, length(box) FROM joins'
const WEIGHT = 'count(*), coalesce(sum(length(box)), 0) FROM joins INDEXED BY joins_weight'
const PLACE = 'INDEXED BY joins_in WHERE channel = ? AND queue = ? AND until > ?'

/** Exported for a test that inspects their query plans. */
export const JOIN_SQL = {
  get: `${HEADER} WHERE invite = ? AND agent = ?`,
  after: `${HEADER} ${PLACE} AND number > ? ORDER BY number LIMIT ?`,
  // One row, because each row of a result takes longer than its number.
  numbers: `SELECT json_group_array(number) FROM joins ${PLACE} AND number <= ?`,
  box: 'SELECT queue, invite, agent, box, checksum FROM joins WHERE number = ?',
  weight: `SELECT ${WEIGHT} WHERE queue = ? AND until > ?`,
  weightFor: `SELECT ${WEIGHT} WHERE queue = ? AND until > ? AND invite = ?`,
  weights: `SELECT invite, ${WEIGHT} WHERE queue = ? AND until > ? GROUP BY invite`,
  beyond: `SELECT invite, agent FROM joins WHERE queue = ?1 ORDER BY number
    LIMIT max(0, (SELECT count(*) FROM joins INDEXED BY joins_of WHERE queue = ?1) - ?2)`,
  forInvites: `SELECT invite, agent FROM joins INDEXED BY joins_weight
    WHERE queue = ? AND invite IN (SELECT value FROM json_each(?)) ORDER BY number`,
  ofAgent: 'SELECT invite, agent FROM joins WHERE channel = ? AND agent = ? ORDER BY number',
  inChannel: 'SELECT invite, agent FROM joins INDEXED BY joins_in WHERE channel = ? ORDER BY queue, number',
  put: 'INSERT INTO joins (channel, until, queue, invite, agent, box, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)',
  drop: 'DELETE FROM joins WHERE invite = ? AND agent = ?',
  expire: 'DELETE FROM joins WHERE number IN (SELECT number FROM joins WHERE until <= ? LIMIT ?)',
}

type HeaderRow = [
  number: number,
  queue: Uint8Array,
  invite: string,
  channel: Uint8Array,
  agent: Uint8Array,
  until: Time,
  size: number,
]

/** The join requests of an open database. */
export class SqliteJoinRows implements JoinRows {
  readonly #statements: Prepared<keyof typeof JOIN_SQL>

  constructor(db: DatabaseSync) {
    this.#statements = prepared(db, JOIN_SQL)
  }

  get(invite: string, agent: AgentId): JoinHeader | undefined {
    const row = this.#statements.get.get(invite, fromHex(agent)) as unknown as HeaderRow | undefined
    return row && headerOf(row)
  }

  after({ queue, channel, now }: JoinPlace, after: number, limit: number): readonly JoinHeader[] {
    const rows = this.#statements.after.all(fromHex(channel), fromHex(queue), now, after, limit)
    return (rows as unknown as HeaderRow[]).map(headerOf)
  }

  numbers({ queue, channel, now }: JoinPlace, through: number): readonly number[] {
    const row = this.#statements.numbers.get(fromHex(channel), fromHex(queue), now, through)
    return JSON.parse((row as unknown as [string])[0]) as number[]
  }

  boxes(joins: readonly JoinHeader[]): readonly Uint8Array[] {
    return joins.map(({ number }) => {
      const row = intact(this.#statements.box.get(number), 'a join request')
      return (row as [Uint8Array, string, Uint8Array, Uint8Array])[3]
    })
  }

  weight(queue: JoinQueue, now: Time, invite?: string): JoinWeight {
    const { weight, weightFor } = this.#statements
    const row = invite === undefined ? weight.get(fromHex(queue), now) : weightFor.get(fromHex(queue), now, invite)
    const [count, bytes] = row as unknown as [number, number]
    return { count, bytes }
  }

  weights(queue: JoinQueue, now: Time): ReadonlyMap<string, JoinWeight> {
    const rows = this.#statements.weights.all(fromHex(queue), now) as unknown as [string, number, number][]
    return new Map(rows.map(([invite, count, bytes]) => [invite, { count, bytes }]))
  }

  beyond(queue: JoinQueue, kept: number): readonly JoinKey[] {
    return this.#keys('beyond', fromHex(queue), kept)
  }

  forInvites(queue: JoinQueue, invites: readonly string[]): readonly JoinKey[] {
    return this.#keys('forInvites', fromHex(queue), JSON.stringify(invites))
  }

  ofAgent(channel: ChannelId, agent: AgentId): readonly JoinKey[] {
    return this.#keys('ofAgent', fromHex(channel), fromHex(agent))
  }

  inChannel(channel: ChannelId): readonly JoinKey[] {
    return this.#keys('inChannel', fromHex(channel))
  }

  put(join: JoinRequest): void {
    const { invite, channel, agent, box, until } = join
    const row = sealed([fromHex(queueOf(join)), invite, fromHex(agent), box])
    this.#statements.put.run(fromHex(channel), until, ...row)
  }

  drop({ invite, agent }: JoinKey): void {
    this.#statements.drop.run(invite, fromHex(agent))
  }

  /** Deletes what has expired, a limited number of rows at a time. */
  expire(now: Time): void {
    this.#statements.expire.run(now, SWEEP_ROWS)
  }

  #keys(
    name: 'beyond' | 'forInvites' | 'ofAgent' | 'inChannel',
    ...values: readonly SQLInputValue[]
  ): readonly JoinKey[] {
    const rows = this.#statements[name].all(...values) as unknown as [string, Uint8Array][]
    return rows.map(([invite, agent]) => ({ invite, agent: toHex(agent) }))
  }
}

function headerOf([number, queue, invite, channel, agent, until, size]: HeaderRow): JoinHeader {
  return { number, queue: toHex(queue), invite, channel: toHex(channel), agent: toHex(agent), until, size }
}
