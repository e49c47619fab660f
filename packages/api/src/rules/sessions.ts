/** Sign-in sessions: a random id in a cookie, stored only as a hash, extended while in use. */
import { createHash, randomBytes } from 'node:crypto'
import { type Account, StaticError } from '@static/protocol'
import { type Accounts, publicAccount } from './accounts.ts'
import type { Audit } from './audit.ts'
import type { Caller } from './caller.ts'
import type { RateContext } from './limits.ts'
import type { Clock, SessionStore } from '../ports.ts'

/** A session's expiry is extended at most this often. */
const RENEW_AFTER = 10 * 60_000

export class Sessions {
  readonly #store: SessionStore
  readonly #accounts: Accounts
  readonly #audit: Audit
  readonly #lifetime: number
  readonly #now: Clock

  constructor(store: SessionStore, accounts: Accounts, audit: Audit, lifetime: number, now: Clock) {
    this.#store = store
    this.#accounts = accounts
    this.#audit = audit
    this.#lifetime = lifetime
    this.#now = now
  }

  /** Signs in. The returned id is not stored anywhere. */
  async signIn(email: string, password: string, context: RateContext): Promise<{ id: string; account: Account }> {
    const account = await this.#accounts.byEmail(email, password, context)
    const id = randomBytes(32).toString('base64url')
    const now = this.#now()
    const session = { idHash: hashOf(id), accountId: account.id, createdAt: now, expiresAt: now + this.#lifetime }
    const entry = this.#audit.byUser('sign_in', account.id, context)
    if (!(await this.#store.create(session, account.passwordHash, entry))) {
      throw StaticError.of('invalid_credentials', 'The e-mail address or the password is wrong.')
    }
    return { id, account: publicAccount(account) }
  }

  /**
   * The caller of a session, and whether the session was extended (then the cookie must be, too).
   * Throws `auth_failed` if it has ended, `account_suspended`.
   */
  async resume(id: string): Promise<{ caller: Caller; renewed: boolean }> {
    const session = await this.#store.find(hashOf(id))
    const now = this.#now()
    if (!session || session.expiresAt <= now || session.status === 'closed') {
      throw StaticError.of('auth_failed', 'The session has ended. Sign in again.')
    }
    if (session.status === 'suspended') throw StaticError.of('account_suspended')
    const expiresAt = now + this.#lifetime
    const renewed = expiresAt - session.expiresAt >= RENEW_AFTER
    if (renewed) await this.#store.renew(session.idHash, expiresAt)
    const { accountId, plan, idHash } = session
    return { caller: { accountId, plan, mode: 'live', credential: { by: 'session', idHash } }, renewed }
  }

  /** Signs out. */
  async end(id: string, context: RateContext): Promise<void> {
    await this.#store.remove(hashOf(id), (accountId) => this.#audit.byUser('session_ended', accountId, context))
  }
}

/** The id has 256 random bits, so a fast hash is enough. */
function hashOf(id: string): string {
  return createHash('sha256').update(id).digest('hex')
}
