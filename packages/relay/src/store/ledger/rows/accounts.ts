/** The accounts of an engine. */
import type { Account } from '../../../ports.ts'
import type { AccountRecord } from '../state.ts'

/** Accounts that own channels. */
export interface AccountRows {
  /** The record itself, not a copy. It is the same object until `settle` or the end of the operation. */
  get(account: Account): AccountRecord
  /** Must be called after a change to an account's limits. */
  put(record: AccountRecord): void
}
