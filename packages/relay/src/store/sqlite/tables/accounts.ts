/** Account records in SQLite, kept in memory. An account's size is the sum over its channels, so no message writes a row for it. */
import { type Account, accountKey, type Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import type { AccountRows } from '../../ledger/rows/accounts.ts'
import { type AccountRecord, newAccount } from '../../ledger/state.ts'
import type { Statements } from '../statements.ts'

/** Number of accounts in memory. One takes a few hundred bytes; reloading it sums up its channels. */
const MAX_ACCOUNTS = 20_000

type AllotmentRow = readonly [
  account: string,
  mode: string,
  channelBytes: number | null,
  accountBytes: number | null,
  fileBytes: number | null,
  reportedAt: Time,
]

/** The accounts of an open database. */
export class SqliteAccountRows implements AccountRows {
  readonly #statements: Statements
  readonly #store: () => void
  readonly #accounts = new Map<string, AccountRecord>()

  /** `store` writes the rows that are behind the log. */
  constructor(statements: Statements, store: () => void) {
    this.#statements = statements
    this.#store = store
  }

  get(account: Account): AccountRecord {
    const known = this.#accounts.get(accountKey(account))
    if (known) return known
    // The sum is computed from the rows, so these must be up to date.
    this.#store()
    return this.#load(account)
  }

  put({ account: { id, mode }, channelBytes, accountBytes, fileBytes, reportedAt }: AccountRecord): void {
    const limits = [channelBytes ?? null, accountBytes ?? null, fileBytes ?? null] as const
    this.#statements.putAllotment.run(...sealed([id, mode, ...limits, reportedAt]))
  }

  /** Called when no record is in use. */
  settle(): void {
    if (this.#accounts.size > MAX_ACCOUNTS) this.clear()
  }

  clear(): void {
    this.#accounts.clear()
  }

  #load(account: Account): AccountRecord {
    const { id, mode } = account
    const row = this.#statements.allotment.get(id, mode)
    const record = row ? readAllotment(account, intact(row, `account ${id}`) as AllotmentRow) : newAccount(account)
    const [bytes] = this.#statements.heldBytes.get(id, mode, id, mode) as unknown as [number]
    record.bytes = bytes
    this.#accounts.set(accountKey(account), record)
    return record
  }
}

function readAllotment(
  account: Account,
  [, , channelBytes, accountBytes, fileBytes, reportedAt]: AllotmentRow,
): AccountRecord {
  return {
    account,
    bytes: 0,
    channelBytes: channelBytes ?? undefined,
    accountBytes: accountBytes ?? undefined,
    fileBytes: fileBytes ?? undefined,
    reportedAt,
  }
}
