/** What the operator of the service, who has access to its database, may do with an account. */
import { type Account, type Plan } from '@static/protocol'
import { noAccount, publicAccount } from './accounts.ts'
import { isId } from './id.ts'
import type { AccountStore } from '../ports.ts'

export class Admin {
  readonly #accounts: AccountStore

  constructor(accounts: AccountStore) {
    this.#accounts = accounts
  }

  /** Reads any account. Throws `not_found`. */
  async inspect(id: string): Promise<Account> {
    const account = isId(id) ? await this.#accounts.byId(id) : undefined
    if (!account) throw noAccount(id)
    return publicAccount(account)
  }

  /** Changes the plan. The quota changes immediately; tokens already issued keep the old plan. */
  async setPlan(id: string, plan: Plan): Promise<void> {
    if (!(await this.#accounts.change(id, { plan }))) throw noAccount(id)
  }

  /** Suspends or reactivates an account. Its keys and sessions are refused from the next request. */
  async setSuspended(id: string, suspended: boolean): Promise<void> {
    const status = suspended ? 'suspended' : 'active'
    if (!(await this.#accounts.change(id, { status }))) throw noAccount(id)
  }
}
