/**
 * Verifies API keys fast without weakening how they are stored (SPEC.md, "Checking a key").
 * The row is read on every request, so a revoked key is refused on the next request, on every node.
 * The cache holds only that a key once matched a certain Argon2id hash, under a tag that is
 * useless outside this process.
 */
import { LRUCache } from 'lru-cache'
import { StaticError } from '@static/protocol'
import { parseApiKey } from '../secrets/api-key.ts'
import type { Hasher } from '../secrets/hash.ts'
import type { Limits } from './limits.ts'
import type { RateContext, RateState } from './rate-policy.ts'
import type { KeyStore, VerifiableKey } from '../ports.ts'

export class KeyVerifier {
  readonly #keys: Pick<KeyStore, 'byPrefix'>
  readonly #hasher: Hasher
  readonly #limits: Limits
  readonly #tag: (key: string) => string
  /** Tag of a key → the hash that it matched. */
  readonly #verified: LRUCache<string, string>
  /** Argon2 runs in progress, by tag: concurrent requests with the same key share one run. */
  readonly #running = new Map<string, Promise<boolean>>()

  constructor(
    keys: Pick<KeyStore, 'byPrefix'>,
    hasher: Hasher,
    limits: Limits,
    tag: (key: string) => string,
    cachedKeys: number,
  ) {
    this.#keys = keys
    this.#hasher = hasher
    this.#limits = limits
    this.#tag = tag
    this.#verified = new LRUCache({ max: cachedKeys })
  }

  /**
   * Returns the row of a valid key. Throws `auth_key_invalid` (the same error for every reason),
   * `account_suspended`, or `rate_limited` after too many failures from this address.
   */
  async verify(key: string, context: RateContext): Promise<VerifiableKey> {
    const parsed = parseApiKey(key)
    if (!parsed) throw await this.#failed(context)
    let row = await this.#keys.byPrefix(parsed.prefix)
    if (!isUsable(row)) throw await this.#failed(context)
    const tag = this.#tag(key)
    if (this.#verified.get(tag) !== row.hash) {
      if (!(await this.#once(tag, key, row.hash, parsed.prefix, context))) throw invalid()
      this.#verified.set(tag, row.hash)
      // The run may have waited in the queue, so the row is read again.
      row = await this.#keys.byPrefix(parsed.prefix)
      if (!isUsable(row)) throw invalid()
    }
    if (row.status === 'suspended') throw StaticError.of('account_suspended')
    return row
  }

  /** One Argon2 run for all callers with this key. */
  #once(tag: string, key: string, hash: string, prefix: string, context: RateContext): Promise<boolean> {
    const running = this.#running.get(tag)
    if (running) return running
    const run = this.#check(key, hash, prefix, context).finally(() => this.#running.delete(tag))
    this.#running.set(tag, run)
    return run
  }

  /**
   * The failure is counted before the run and refunded after it, so that many attempts at once cannot slip under the
   * limit.
   */
  async #check(key: string, hash: string, prefix: string, context: RateContext): Promise<boolean> {
    const { failures } = this.#limits
    const pair = `${prefix} ${context.address}`
    const met: RateState[] = []
    const tries = await failures.spend(pair, { ...context, rates: met }).catch((error: unknown) => {
      context.rates.push(...met)
      throw error
    })
    let matches: boolean
    try {
      // Only a prefix that has failed from this address is slowed down, not other clients behind the same address.
      const lane = tries === 1 ? 'clean' : 'suspect'
      if (lane === 'suspect') await failures.check(context.address, context)
      matches = await this.#hasher.verify(hash, key, lane)
    } catch (error) {
      await failures.refund(pair)
      throw error
    }
    if (matches) await failures.refund(pair)
    else {
      await failures.add(context.address)
      context.rates.push(failures.state(context.address))
    }
    return matches
  }

  /** Counts a failure that cost no Argon2 run, and returns the error. */
  async #failed(context: RateContext): Promise<StaticError> {
    await this.#limits.failures.spend(context.address, context)
    return invalid()
  }
}

function isUsable(row: VerifiableKey | undefined): row is VerifiableKey {
  return row !== undefined && row.revokedAt === null && row.status !== 'closed'
}

function invalid(): StaticError {
  return StaticError.of(
    'auth_key_invalid',
    'The API key is unknown, mistyped or revoked. Check it, or create a new one.',
  )
}
