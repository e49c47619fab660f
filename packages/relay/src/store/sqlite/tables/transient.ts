/** Join requests and used nonces in SQLite. With only one node, no notices are needed. */
import type { DatabaseSync } from 'node:sqlite'
import type { Time } from '../../../ports.ts'
import type { Notices, TransientRows } from '../../ledger/rows/transient.ts'
import { SqliteJoinRows } from './joins.ts'
import { type Prepared, prepared } from '../statements.ts'

/** Maximum number of nonces that one sweep deletes. */
const SWEEP_ROWS = 2048

const SQL = {
  useNonce: 'INSERT INTO nonces VALUES (?, ?) ON CONFLICT DO NOTHING',
  expireNonces: 'DELETE FROM nonces WHERE nonce IN (SELECT nonce FROM nonces WHERE until <= ? LIMIT ?)',
}

/** The short-lived rows of an open database. */
export class SqliteTransientRows implements TransientRows {
  readonly joins: SqliteJoinRows
  readonly #statements: Prepared<keyof typeof SQL>

  constructor(db: DatabaseSync) {
    this.joins = new SqliteJoinRows(db)
    this.#statements = prepared(db, SQL)
  }

  useNonce(nonce: Uint8Array, until: Time): boolean {
    return Number(this.#statements.useNonce.run(nonce, until).changes) > 0
  }

  addNotice(): void {}

  notices(): Notices {
    return { events: [], position: '', more: false }
  }

  expire(now: Time): void {
    this.joins.expire(now)
    this.#statements.expireNonces.run(now, SWEEP_ROWS)
  }
}
