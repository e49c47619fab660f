/** Storage limits of accounts: stated in the API's tokens, kept in the store. */
import type { TokenClaims } from '@static/protocol'
import { type Account, accountKey, type StoreRequest } from '../../ports.ts'
import type { Effects } from '../effects.ts'

/** Number of accounts remembered. Forgetting one costs one store operation. */
const MAX_ACCOUNTS = 100_000

/** The limits that one node has passed to its store. */
export class Allotments {
  readonly #effects: Effects
  readonly #passed = new Map<string, StoreRequest<'allot'>>()

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /** Passes changed limits to the store. Ignores a token that is older than the last one. */
  tell(account: Account, claims: TokenClaims): void {
    const { iat, channel_bytes: channelBytes, account_bytes: accountBytes, file_bytes: fileBytes } = claims
    const key = accountKey(account)
    const known = this.#passed.get(key)
    const at = iat * 1000
    if (known && at < known.at) return
    const request = { account, channelBytes, accountBytes, fileBytes, at }
    if (this.#passed.size >= MAX_ACCOUNTS) this.#passed.clear()
    this.#passed.set(key, request)
    const isSame = known && known.channelBytes === channelBytes && known.accountBytes === accountBytes
    if (isSame && known.fileBytes === fileBytes) return
    this.#effects.store('allot', request, (outcome) => {
      // The next token retries.
      if (!outcome.ok && this.#passed.get(key) === request) this.#passed.delete(key)
    })
  }
}
