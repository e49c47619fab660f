/** What accounts see of their channels in SQLite. Checksums are not verified, because nothing is decided by it. */
import { type Mode, toHex } from '@static/protocol'
import type { Time } from '../../../ports.ts'
import type { Behind, Owned, OwnedRows } from '../../ledger/rows/owned.ts'
import type { Statements } from '../statements.ts'

type OwnedRow = [
  number: number,
  id: Uint8Array,
  name: string,
  mode: Mode,
  owner: Uint8Array,
  createdAt: Time,
  lastAt: Time,
  lastIndex: number,
  logBytes: number,
]

/** The channels of accounts in an open database. */
export class SqliteOwnedRows implements OwnedRows {
  readonly #statements: Statements
  readonly #store: () => void

  /** `store` writes the rows that are behind the log. */
  constructor(statements: Statements, store: () => void) {
    this.#statements = statements
    this.#store = store
  }

  list(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] } {
    this.#store()
    const [total] = this.#statements.countOwned.get(account) as unknown as [number]
    const rows = this.#statements.ownedChannels.all(account, limit, skip) as unknown as OwnedRow[]
    const channels = rows.map(([number, id, name, mode, owner, createdAt, lastAt, lastIndex, logBytes]) => {
      return { number, id: toHex(id), name, mode, owner: toHex(owner), createdAt, lastAt, lastIndex, logBytes }
    })
    return { total, channels }
  }

  furthestBehind({ number }: Pick<Owned, 'number'>, limit: number): Behind {
    const [count] = this.#statements.countRoster.get(number) as unknown as [number]
    const rows = this.#statements.furthestBehind.all(number, limit) as unknown as [Uint8Array, number][]
    return { count, members: rows.map(([agent, cursor]) => ({ agent: toHex(agent), cursor })) }
  }
}
