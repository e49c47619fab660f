/** What the operator of the service may do with an account, given access to its database. */
import { type Account, type Plan } from '@static/protocol'
import { noAccount, publicAccount } from './accounts.ts'
import { isId } from './id.ts'
import type { AccountStore } from '../ports.ts'

/** The operator's view of accounts. */
export class Admin {
  readonly #accounts: AccountStore

  constructor(accounts: AccountStore) {
    this.#accounts = accounts
  }

  /** The account, whoever's it is. Throws `not_found`. */
  async inspect(id: string): Promise<Account> {
    const account = isId(id) ? await this.#accounts.byId(id) : undefined
    if (!account) throw noAccount()
    return publicAccount(account)
  }

  /** Puts the account on a plan; tokens issued from now on say so, the quota follows at once. */
  async setPlan(id: string, plan: Plan): Promise<void> {
    if (!(await this.#accounts.change(id, { plan }))) throw noAccount()
  }

  /** Stops an account, or lets it go on. Its keys and sessions are refused from the next request. */
  async setSuspended(id: string, suspended: boolean): Promise<void> {
    const status = suspended ? 'suspended' : 'active'
    if (!(await this.#accounts.change(id, { status }))) throw noAccount()
  }
}
