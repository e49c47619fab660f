/** What accounts see of their channels. Checksums are not verified, because nothing is decided by it. */
import { type Mode, toHex } from '@static/protocol'
import type { Time } from '../../../ports.ts'
import type { Behind, Owned, OwnedRows } from '../../ledger/rows/owned.ts'
import { Facts } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask } from '../write.ts'

const OWNED = statement(`SELECT number, id, name, mode, owner, created_at, last_at, last_index,
    (SELECT coalesce(sum(bytes), 0)::bigint FROM senders WHERE channel = number)
  FROM channels WHERE account = $1 ORDER BY mode, name LIMIT $2 OFFSET $3`)
const COUNT = statement('SELECT count(*) FROM channels WHERE account = $1')
const BEHIND = statement(`SELECT agent, cursor_index, count(*) OVER () FROM members
  WHERE channel = $1 AND ended_index IS NULL AND welcomed = 1 ORDER BY cursor_index, agent LIMIT $2`)

type OwnedRow = [number, Uint8Array, string, Mode, Uint8Array, Time, Time, number, number]

/** The channels of accounts, as stored. */
export class OwnedReads implements OwnedRows {
  readonly #transaction: Transaction
  readonly #facts = new Facts()

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
  }

  list(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] } {
    const [count] = this.#facts.need(`count ${account}`, () => ask(this.#transaction, COUNT, [account]))
    const rows = this.#facts.need(`owned ${account} ${skip} ${limit}`, () =>
      ask(this.#transaction, OWNED, [account, limit, skip]),
    )
    const channels = (rows as OwnedRow[]).map(
      ([number, id, name, mode, owner, createdAt, lastAt, lastIndex, logBytes]) => {
        return { number, id: toHex(id), name, mode, owner: toHex(owner), createdAt, lastAt, lastIndex, logBytes }
      },
    )
    return { total: count?.[0] as number, channels }
  }

  furthestBehind({ number }: Pick<Owned, 'number'>, limit: number): Behind {
    // At least one, because only a row contains the count.
    const rows = this.#facts.need(`behind ${number} ${limit}`, () =>
      ask(this.#transaction, BEHIND, [number, Math.max(1, limit)]),
    )
    const members = (rows as [Uint8Array, number, number][]).slice(0, limit)
    return {
      count: (rows[0]?.[2] as number | undefined) ?? 0,
      members: members.map(([agent, cursor]) => ({ agent: toHex(agent), cursor })),
    }
  }
}
