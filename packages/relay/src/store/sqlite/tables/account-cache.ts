/** Account records in memory. An account's size is the sum over its channels, so no message writes a row for it. */
import { type Account, accountKey, type Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import { type AccountRecord, newAccount } from '../../ledger/state.ts'
import type { Statements } from '../statements.ts'

/** Number of accounts in memory. One takes a few hundred bytes; reloading it sums up its channels. */
const MAX_ACCOUNTS = 20_000

type AllotmentRow = readonly [
  account: string,
  mode: string,
  channelBytes: number | null,
  accountBytes: number | null,
  reportedAt: Time,
]

/** The accounts of a database that are in memory. */
export class AccountCache {
  readonly #statements: Statements
  readonly #accounts = new Map<string, AccountRecord>()

  constructor(statements: Statements) {
    this.#statements = statements
  }

  get(account: Account): AccountRecord | undefined {
    return this.#accounts.get(accountKey(account))
  }

  /** Reads an account. All changes to its channels must have been written. */
  load(account: Account): AccountRecord {
    const { id, mode } = account
    const row = this.#statements.allotment.get(id, mode)
    const record = row ? readAllotment(account, intact(row, `account ${id}`) as AllotmentRow) : newAccount(account)
    const [bytes] = this.#statements.heldBytes.get(id, mode, id, mode) as unknown as [number]
    record.bytes = bytes
    this.#accounts.set(accountKey(account), record)
    return record
  }

  /** Stores an account's limits. */
  put({ account: { id, mode }, channelBytes, accountBytes, reportedAt }: AccountRecord): void {
    this.#statements.putAllotment.run(...sealed([id, mode, channelBytes ?? null, accountBytes ?? null, reportedAt]))
  }

  /** Called when no record is in use. */
  settle(): void {
    if (this.#accounts.size > MAX_ACCOUNTS) this.clear()
  }

  clear(): void {
    this.#accounts.clear()
  }
}

function readAllotment(account: Account, [, , channelBytes, accountBytes, reportedAt]: AllotmentRow): AccountRecord {
  return {
    account,
    bytes: 0,
    channelBytes: channelBytes ?? undefined,
    accountBytes: accountBytes ?? undefined,
    reportedAt,
  }
}
