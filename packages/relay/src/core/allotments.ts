/** What accounts may keep in their channels: the tokens of the API say it, the store keeps it. */
import type { TokenClaims } from '@static/protocol'
import type { Account, StoreRequest } from '../ports.ts'
import type { Effects } from './effects.ts'

/** Accounts that are remembered; forgetting them costs one operation of the store each. */
const MAX_ACCOUNTS = 100_000

/** What one node has told its store. */
export class Allotments {
  readonly #effects: Effects
  readonly #told = new Map<string, StoreRequest<'allot'>>()

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /** Tells the store of a change. An older token does not bring back what it says. */
  tell(account: Account, { iat, channel_bytes: channelBytes, account_bytes: accountBytes }: TokenClaims): void {
    const key = `${account.mode} ${account.id}`
    const known = this.#told.get(key)
    const at = iat * 1000
    if (known && at < known.at) return
    const request = { account, channelBytes, accountBytes, at }
    if (this.#told.size >= MAX_ACCOUNTS) this.#told.clear()
    this.#told.set(key, request)
    if (known && known.channelBytes === channelBytes && known.accountBytes === accountBytes) return
    this.#effects.store('allot', request, (outcome) => {
      // The next token tells it again.
      if (!outcome.ok && this.#told.get(key) === request) this.#told.delete(key)
    })
  }
}
