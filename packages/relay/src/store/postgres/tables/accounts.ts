/**
 * The accounts that own channels. Their size is the sum over their channels, as last read: other nodes add to it
 * meanwhile, so it is read again after a while.
 */
import type { Account, Time } from '../../../ports.ts'
import { type AccountRecord, newAccount } from '../../ledger/state.ts'
import { intact, sealed } from '../../sqlite/checksum.ts'
import { Missing, type Table } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask, send } from '../write.ts'

const SIZES = statement(`
  SELECT u.account, u.mode,
    (SELECT coalesce(sum(bytes), 0)::bigint FROM channels c WHERE c.account = u.account AND c.mode = u.mode)
    + (SELECT coalesce(sum(bytes), 0)::bigint FROM dropped d WHERE d.account = u.account AND d.mode = u.mode),
    a.account, a.mode, a.channel_bytes, a.account_bytes, a.told_at, a.checksum
  FROM unnest($1::text[], $2::text[]) u (account, mode)
  LEFT JOIN accounts a ON a.account = u.account AND a.mode = u.mode`)
const PUT = statement(`INSERT INTO accounts VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (account, mode) DO UPDATE SET channel_bytes = excluded.channel_bytes,
  account_bytes = excluded.account_bytes, told_at = excluded.told_at, checksum = excluded.checksum
  WHERE accounts.told_at <= excluded.told_at`)

/** Number of accounts in memory. */
const MAX_ACCOUNTS = 20_000

type AllotmentRow = readonly [string, string, number | null, number | null, Time]

/** An account as last read, with what this node has added since. */
interface Known {
  readonly record: AccountRecord
  /** When it was read, by the monotonic clock. */
  readonly at: number
}

/** The accounts that a node knows; all lanes share them. */
export type KnownAccounts = Map<string, Known>

/** The accounts of a lane. */
export class AccountTable implements Table {
  readonly #transaction: Transaction
  readonly #freshMs: number
  readonly #known: KnownAccounts
  /** Copies of the records that the batch may change. */
  readonly #live = new Map<string, { readonly record: AccountRecord; readonly bytes: number }>()
  readonly #allotted = new Set<AccountRecord>()
  /** Sizes from before do not count as known. */
  #since = -Infinity
  #isAgedEnough = false

  /** `freshMs`: for how long a size counts as known. */
  constructor(transaction: Transaction, freshMs: number, known: KnownAccounts) {
    this.#transaction = transaction
    this.#known = known
    this.#freshMs = freshMs
  }

  begin(): void {
    this.rewind()
    this.#since = performance.now() - this.#freshMs
    this.#isAgedEnough = false
    // In the order in which they were read.
    for (const key of this.#known.keys()) {
      if (this.#known.size <= MAX_ACCOUNTS) break
      this.#known.delete(key)
    }
  }

  rewind(): void {
    this.#live.clear()
    this.#allotted.clear()
  }

  /**
   * Takes aged sizes for current while new ones are read, for this batch: other nodes can add more than that before they
   * are read again. Returns false if one is not known at all, or if sizes must be current.
   */
  assumeKnown(accounts: readonly Account[]): boolean {
    this.#isAgedEnough = this.#freshMs > 0 && accounts.every((account) => this.#known.has(keyOf(account)))
    return this.#isAgedEnough
  }

  get(account: Account): AccountRecord {
    const key = keyOf(account)
    const live = this.#live.get(key)
    if (live) return live.record
    const known = this.#known.get(key)
    if (!known || !(this.#isAgedEnough || this.#isFresh(known))) throw new Missing(() => this.fetch([account]))
    const record = { ...known.record }
    this.#live.set(key, { record, bytes: record.bytes })
    return record
  }

  put(record: AccountRecord): void {
    this.#allotted.add(record)
  }

  /** Reads the accounts that are not known, or not any more. */
  async fetch(accounts: readonly Account[]): Promise<void> {
    const unknown = new Map<string, Account>()
    for (const account of accounts) {
      const key = keyOf(account)
      const known = this.#known.get(key)
      if (!known || !this.#isFresh(known)) unknown.set(key, account)
    }
    if (unknown.size === 0) return
    const asked = [...unknown.values()]
    const rows = await ask(this.#transaction, SIZES, [asked.map(({ id }) => id), asked.map(({ mode }) => mode)])
    for (const [id, mode, bytes, ...row] of rows) {
      const account = { id, mode } as Account
      const limits = row[0] === null ? undefined : (intact(row, `account ${account.id}`) as AllotmentRow)
      const record = { ...newAccount(account), ...(limits ? readLimits(limits) : {}), bytes: bytes as number }
      const key = keyOf(account)
      // At the end, also if another lane has read it meanwhile.
      this.#known.delete(key)
      this.#known.set(key, { record, at: performance.now() })
    }
  }

  /** Their sizes have changed without the ledger. */
  forget(): void {
    this.#known.clear()
  }

  write(): void {
    // In one order, so that two nodes cannot wait for each other.
    const order = [...this.#allotted].sort((one, other) => (keyOf(one.account) < keyOf(other.account) ? -1 : 1))
    for (const { account, channelBytes, accountBytes, reportedAt } of order) {
      const row = [account.id, account.mode, channelBytes ?? null, accountBytes ?? null, reportedAt] as const
      send(this.#transaction, PUT, sealed(row))
    }
  }

  committed(): void {
    for (const [key, { record, bytes }] of this.#live) {
      const known = this.#known.get(key)
      // Other lanes may have added to it meanwhile.
      if (known) known.record.bytes += record.bytes - bytes
      if (known && this.#allotted.has(record)) this.#known.delete(key)
    }
  }

  #isFresh({ at }: Known): boolean {
    return at > this.#since
  }
}

function keyOf({ id, mode }: Account): string {
  return `${mode} ${id}`
}

function readLimits([, , channelBytes, accountBytes, reportedAt]: AllotmentRow): Partial<AccountRecord> {
  return { channelBytes: channelBytes ?? undefined, accountBytes: accountBytes ?? undefined, reportedAt }
}
