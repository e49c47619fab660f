/** Join requests and used nonces in SQLite. There is one node, so no one needs notices. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { fromHex, toHex } from '@static/protocol'
import type { AgentId, JoinRequest, Time } from '../../ports.ts'
import type { JoinHeader, Notices, TransientRows } from '../ledger/transient-rows.ts'
import { intact, sealed } from './checksum.ts'

/** Maximum number of rows of each table that one sweep deletes. */
const SWEEP_ROWS = 2048

const SQL = {
  joins: 'SELECT invite, channel, agent, until, length(box), given FROM joins WHERE owner = ? ORDER BY number',
  box: 'SELECT owner, invite, agent, box, checksum FROM joins WHERE invite = ? AND agent = ?',
  putJoin: `INSERT INTO joins (channel, until, owner, invite, agent, box, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  giveJoin: 'UPDATE joins SET given = ? WHERE invite = ? AND agent = ?',
  dropJoin: 'DELETE FROM joins WHERE invite = ? AND agent = ?',
  expireJoins: 'DELETE FROM joins WHERE number IN (SELECT number FROM joins WHERE until <= ? LIMIT ?)',
  useNonce: 'INSERT INTO nonces VALUES (?, ?) ON CONFLICT DO NOTHING',
  expireNonces: 'DELETE FROM nonces WHERE nonce IN (SELECT nonce FROM nonces WHERE until <= ? LIMIT ?)',
}

type JoinRow = [invite: string, channel: Uint8Array, agent: Uint8Array, until: Time, size: number, given: string | null]

/** The short-lived rows of an open database. */
export class SqliteTransientRows implements TransientRows {
  readonly #statements: Readonly<Record<keyof typeof SQL, StatementSync>>

  constructor(db: DatabaseSync) {
    const prepared = Object.entries(SQL).map(([name, sql]) => {
      const statement = db.prepare(sql)
      statement.setReturnArrays(true)
      return [name, statement]
    })
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof SQL, StatementSync>
  }

  joinsOf(owner: AgentId): readonly JoinHeader[] {
    const rows = this.#statements.joins.all(fromHex(owner)) as unknown as JoinRow[]
    return rows.map(([invite, channel, agent, until, size, given]) => {
      return { invite, channel: toHex(channel), agent: toHex(agent), until, size, given: given ?? undefined }
    })
  }

  joinBox(_owner: AgentId, invite: string, agent: AgentId): Uint8Array {
    const row = this.#statements.box.get(invite, fromHex(agent))
    return (intact(row, 'a join request') as [Uint8Array, string, Uint8Array, Uint8Array])[3]
  }

  putJoin({ invite, channel, owner, agent, box, until }: JoinRequest): void {
    const row = sealed([fromHex(owner), invite, fromHex(agent), box])
    this.#statements.putJoin.run(fromHex(channel), until, ...row)
  }

  giveJoin(_owner: AgentId, invite: string, agent: AgentId, session: string): void {
    this.#statements.giveJoin.run(session, invite, fromHex(agent))
  }

  dropJoin(_owner: AgentId, invite: string, agent: AgentId): void {
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
