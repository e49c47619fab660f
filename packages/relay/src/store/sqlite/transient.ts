/** Join requests and used nonces in SQLite. There is one node, so no one needs notices. */
import type { DatabaseSync } from 'node:sqlite'
import { fromHex, toHex } from '@static/protocol'
import type { AgentId, JoinRequest, Time } from '../../ports.ts'
import { type JoinHeader, type JoinQueue, type Notices, type TransientRows, queueOf } from '../ledger/transient-rows.ts'
import { intact, sealed } from './checksum.ts'
import { type Prepared, prepared } from './statements.ts'

/** Maximum number of rows of each table that one sweep deletes. */
const SWEEP_ROWS = 2048

const SQL = {
  joins: `SELECT number, invite, channel, agent, until, length(box) FROM joins
    WHERE queue = ? ORDER BY number`,
  box: 'SELECT queue, invite, agent, box, checksum FROM joins WHERE invite = ? AND agent = ?',
  putJoin: `INSERT INTO joins (channel, until, queue, invite, agent, box, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  dropJoin: 'DELETE FROM joins WHERE invite = ? AND agent = ?',
  expireJoins: 'DELETE FROM joins WHERE number IN (SELECT number FROM joins WHERE until <= ? LIMIT ?)',
  useNonce: 'INSERT INTO nonces VALUES (?, ?) ON CONFLICT DO NOTHING',
  expireNonces: 'DELETE FROM nonces WHERE nonce IN (SELECT nonce FROM nonces WHERE until <= ? LIMIT ?)',
}

type JoinRow = [number: number, invite: string, channel: Uint8Array, agent: Uint8Array, until: Time, size: number]

/** The short-lived rows of an open database. */
export class SqliteTransientRows implements TransientRows {
  readonly #statements: Prepared<keyof typeof SQL>

  constructor(db: DatabaseSync) {
    this.#statements = prepared(db, SQL)
  }

  joinsOf(queue: JoinQueue): readonly JoinHeader[] {
    const rows = this.#statements.joins.all(fromHex(queue)) as unknown as JoinRow[]
    return rows.map(([number, invite, channel, agent, until, size]) => {
      return { number, invite, channel: toHex(channel), agent: toHex(agent), until, size }
    })
  }

  joinBox(_queue: JoinQueue, invite: string, agent: AgentId): Uint8Array {
    const row = this.#statements.box.get(invite, fromHex(agent))
    return (intact(row, 'a join request') as [Uint8Array, string, Uint8Array, Uint8Array])[3]
  }

  putJoin(join: JoinRequest): void {
    const { invite, channel, agent, box, until } = join
    const row = sealed([fromHex(queueOf(join)), invite, fromHex(agent), box])
    this.#statements.putJoin.run(fromHex(channel), until, ...row)
  }

  dropJoin(invite: string, agent: AgentId): void {
    this.#statements.dropJoin.run(invite, fromHex(agent))
  }

  useNonce(nonce: Uint8Array, until: Time): boolean {
    return Number(this.#statements.useNonce.run(nonce, until).changes) > 0
  }

  addNotice(): void {}

  notices(): Notices {
    return { events: [], position: '', more: false }
  }

  expire(now: Time): void {
    this.#statements.expireJoins.run(now, SWEEP_ROWS)
    this.#statements.expireNonces.run(now, SWEEP_ROWS)
  }
}
