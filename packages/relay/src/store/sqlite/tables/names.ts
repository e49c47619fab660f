/** The names of channels in SQLite. */
import { toHex } from '@static/protocol'
import type { Account, ChannelId } from '../../../ports.ts'
import type { NameRows } from '../../ledger/rows/channels.ts'
import type { Statements } from '../statements.ts'

/** The names of an open database. */
export class SqliteNameRows implements NameRows {
  readonly #statements: Statements
  readonly #flush: () => void

  /** `flush` writes the channels whose owners have changed. */
  constructor(statements: Statements, flush: () => void) {
    this.#statements = statements
    this.#flush = flush
  }

  find({ id, mode }: Account, name: string): ChannelId | undefined {
    this.#flush()
    const row = this.#statements.named.get(id, mode, name) as unknown as [Uint8Array] | undefined
    return row && toHex(row[0])
  }

  count({ id, mode }: Account): number {
    this.#flush()
    return (this.#statements.countChannels.get(id, mode) as unknown as [number])[0]
  }
}
