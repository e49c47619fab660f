/**
 * The accounts that own channels. Their size is the sum over their channels, as last read: other nodes add to it
 * meanwhile, so it is read again after a while.
 */
import { type Account, accountKey, type Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import type { AccountRows } from '../../ledger/rows/accounts.ts'
import type { AccountRecord } from '../../ledger/state.ts'
import { Missing, type Table } from '../facts.ts'
import { type Row, statement } from '../session.ts'
import { type Transaction, ask, send } from '../write.ts'

const SIZES = statement(`
  SELECT u.account, u.mode,
    (SELECT coalesce(sum(bytes), 0)::bigint FROM channels c WHERE c.account = u.account AND c.mode = u.mode)
    + (SELECT coalesce(sum(bytes), 0)::bigint FROM dropped d WHERE d.account = u.account AND d.mode = u.mode),
    a.account, a.mode, a.channel_bytes, a.account_bytes, a.file_bytes, a.told_at, a.checksum
  FROM unnest($1::text[], $2::text[]) u (account, mode)
  LEFT JOIN accounts a ON a.account = u.account AND a.mode = u.mode`)
const PUT = statement(`INSERT INTO accounts VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT (account, mode) DO UPDATE SET channel_bytes = excluded.channel_bytes,
  account_bytes = excluded.account_bytes, file_bytes = excluded.file_bytes, told_at = excluded.told_at, checksum = excluded.checksum
  WHERE accounts.told_at <= excluded.told_at`)

/**
 * Number of accounts in memory: enough even if every cached channel has its own account. Each takes about 250 bytes.
 */
const MAX_ACCOUNTS = 120_000

type AllotmentRow = readonly [string, string, number | null, number | null, number | null, Time]

const NO_LIMITS: AllotmentRow = ['', '', null, null, null, 0]

/** An account as last read, plus what this node has added since. */
interface Known extends Omit<AccountRecord, 'account'> {
  /** When it was read, by the monotonic clock. */
  readonly at: number
}

/** The accounts that a node knows; all lanes share them. */
export type KnownAccounts = Map<string, Known>

export class AccountTable implements AccountRows, Table {
  readonly #transaction: Transaction
  readonly #freshMs: number
  readonly #known: KnownAccounts
  /** Copies of the records that the batch may change. */
  readonly #live = new Map<string, { readonly record: AccountRecord; readonly bytes: number }>()
  readonly #allotted = new Set<AccountRecord>()
  /** Reads that run behind batches decided on aged sizes. */
  readonly #reading = new Map<string, Promise<void>>()
  #settle: () => void = () => {}
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
    this.#settle()
  }

  /**
   * Treats aged sizes as current for this batch: they are reread behind it (`refresh`), and other nodes could add that
   * much between reads anyway. Reads unknown ones, or all if sizes must be current.
   */
  async assumeKnown(accounts: readonly Account[]): Promise<void> {
    this.#isAgedEnough = this.#freshMs > 0
    const isUnknown = (account: Account): boolean => !this.#isAgedEnough || !this.#known.has(accountKey(account))
    await this.#refreshed(accounts)
    await this.fetch(accounts.filter(isUnknown))
  }

  /**
   * Rereads aged sizes behind what the batch has sent. The new ones apply once the batch is committed or forgotten;
   * later batches that need them wait.
   */
  refresh(accounts: readonly Account[]): Promise<void> {
    const aged = this.#aged(accounts)
    if (aged.size === 0) return Promise.resolve()
    const { promise: settled, resolve } = Promise.withResolvers<void>()
    this.#settle = resolve
    const refreshed = Promise.all([this.#read(aged), settled]).then(([rows]) => this.#note(rows))
    const over = refreshed
      .catch(() => {})
      .then(() => {
        for (const key of aged.keys()) this.#reading.delete(key)
      })
    for (const key of aged.keys()) this.#reading.set(key, over)
    return refreshed
  }

  get(account: Account): AccountRecord {
    const key = accountKey(account)
    const live = this.#live.get(key)
    if (live) return live.record
    const known = this.#known.get(key)
    if (!known || !(this.#isAgedEnough || this.#isFresh(known))) throw new Missing(() => this.fetch([account]))
    const { bytes, channelBytes, accountBytes, fileBytes, reportedAt } = known
    const record = { account, bytes, channelBytes, accountBytes, fileBytes, reportedAt }
    this.#live.set(key, { record, bytes })
    return record
  }

  put(record: AccountRecord): void {
    this.#allotted.add(record)
  }

  /** Reads accounts that are unknown or no longer current. */
  async fetch(accounts: readonly Account[]): Promise<void> {
    await this.#refreshed(accounts)
    const aged = this.#aged(accounts)
    if (aged.size > 0) this.#note(await this.#read(aged))
  }

  /** Called when sizes have changed outside the ledger. */
  forget(): void {
    this.#known.clear()
  }

  write(): void {
    // In a fixed order, so that two nodes cannot deadlock.
    const order = [...this.#allotted].sort((one, other) =>
      accountKey(one.account) < accountKey(other.account) ? -1 : 1,
    )
    for (const { account, channelBytes, accountBytes, fileBytes, reportedAt } of order) {
      const limits = [channelBytes ?? null, accountBytes ?? null, fileBytes ?? null] as const
      const row = [account.id, account.mode, ...limits, reportedAt] as const
      send(this.#transaction, PUT, sealed(row))
    }
  }

  committed(): void {
    for (const [key, { record, bytes }] of this.#live) {
      const known = this.#known.get(key)
      // Other lanes may have added to it meanwhile.
      if (known) known.bytes += record.bytes - bytes
      if (known && this.#allotted.has(record)) this.#known.delete(key)
    }
    this.#settle()
  }

  /** Waits for sizes being read behind earlier batches. */
  async #refreshed(accounts: readonly Account[]): Promise<void> {
    if (this.#reading.size > 0)
      await Promise.all(accounts.flatMap((account) => this.#reading.get(accountKey(account)) ?? []))
  }

  #aged(accounts: readonly Account[]): Map<string, Account> {
    const aged = new Map<string, Account>()
    for (const account of accounts) {
      const key = accountKey(account)
      const known = this.#known.get(key)
      if (!known || !this.#isFresh(known)) aged.set(key, account)
    }
    return aged
  }

  #read(accounts: ReadonlyMap<string, Account>): Promise<Row[]> {
    const asked = [...accounts.values()]
    return ask(this.#transaction, SIZES, [asked.map(({ id }) => id), asked.map(({ mode }) => mode)])
  }

  #note(rows: readonly Row[]): void {
    for (const [id, mode, bytes, ...row] of rows) {
      const account = { id, mode } as Account
      const limits = row[0] === null ? undefined : (intact(row, `account ${account.id}`) as AllotmentRow)
      const [, , channelBytes, accountBytes, fileBytes, reportedAt] = limits ?? NO_LIMITS
      const key = accountKey(account)
      // Moved to the end, even if another lane has read it meanwhile.
      this.#known.delete(key)
      this.#known.set(key, {
        bytes: bytes as number,
        channelBytes: channelBytes ?? undefined,
        accountBytes: accountBytes ?? undefined,
        fileBytes: fileBytes ?? undefined,
        reportedAt,
        at: performance.now(),
      })
    }
  }

  #isFresh({ at }: Known): boolean {
    return at > this.#since
  }
}
