/** Sign-in sessions: a random id in a cookie, stored only as a hash, extended while in use. */
import { createHash, randomBytes } from 'node:crypto'
import { type Account, type ListedSession, StaticError } from '@static/protocol'
import { type Accounts, publicAccount } from './accounts.ts'
import type { Audit } from './audit.ts'
import { isoTime } from './calendar.ts'
import type { SessionCaller } from './caller.ts'
import { clientName } from './client-name.ts'
import type { Devices } from './devices.ts'
import { isId, newId } from './id.ts'
import type { RateContext } from './rate-policy.ts'
import type { Clock, SessionRecord, SessionStore } from '../ports.ts'

/** The maximum length of the list. The oldest are left out, but "all others" ends them as well. */
const MOST_LISTED = 100
/** A session's expiry is extended at most this often. */
const RENEW_AFTER = 10 * 60_000

export class Sessions {
  readonly #store: SessionStore
  readonly #accounts: Accounts
  readonly #devices: Devices
  readonly #audit: Audit
  readonly #lifetime: number
  readonly #now: Clock

  constructor(store: SessionStore, accounts: Accounts, devices: Devices, audit: Audit, lifetime: number, now: Clock) {
    this.#store = store
    this.#accounts = accounts
    this.#devices = devices
    this.#audit = audit
    this.#lifetime = lifetime
    this.#now = now
  }

  /**
   * Signs in. The returned session id is stored only as a hash, as is the secret of the device, which only a browser
   * gets.
   */
  async signIn(
    email: string,
    password: string,
    userAgent: string | undefined,
    context: RateContext,
  ): Promise<{ id: string; account: Account; device: string | undefined }> {
    const account = await this.#accounts.byEmail(email, password, context)
    const id = randomBytes(32).toString('base64url')
    const now = this.#now()
    const entry = this.#audit.byUser('sign_in', account.id, context)
    const session: SessionRecord = {
      id: newId(now),
      idHash: hashOf(id),
      accountId: account.id,
      createdAt: now,
      seenAt: now,
      expiresAt: now + this.#lifetime,
      client: clientName(userAgent) ?? null,
      address: entry.address ?? null,
    }
    if (!(await this.#store.create(session, account.passwordHash, entry))) {
      throw StaticError.of('invalid_credentials', 'The e-mail address or the password is wrong.')
    }
    const device = await this.#devices.remember(account.id, account.passwordHash, context)
    return { id, account: publicAccount(account), device }
  }

  /**
   * The caller of a session, and whether the session was extended, in which case the cookie must be renewed. Throws
   * `auth_failed` if it has ended, `account_suspended`.
   */
  async resume(id: string): Promise<{ caller: SessionCaller; renewed: boolean }> {
    const session = await this.#store.find(hashOf(id))
    const now = this.#now()
    if (!session || session.expiresAt <= now || session.status === 'closed') {
      throw hasEnded()
    }
    if (session.status === 'suspended') throw StaticError.of('account_suspended')
    const expiresAt = now + this.#lifetime
    const renewed = expiresAt - session.expiresAt >= RENEW_AFTER
    if (renewed) await this.#store.renew(session.idHash, now, expiresAt)
    const { accountId, plan, idHash } = session
    return { caller: { accountId, plan, mode: 'live', credential: { by: 'session', idHash } }, renewed }
  }

  /** The caller's sessions, newest first. */
  async list(caller: SessionCaller): Promise<ListedSession[]> {
    const records = await this.#store.list(caller.accountId, this.#now(), MOST_LISTED)
    return records.map(({ id, idHash, createdAt, seenAt, expiresAt, client, address }) => ({
      id,
      current: idHash === caller.credential.idHash,
      created_at: isoTime(createdAt),
      last_used_at: isoTime(seenAt),
      expires_at: isoTime(expiresAt),
      client,
      address,
    }))
  }

  /** Ends one session of the caller's account. Throws `not_found`. */
  async endOne(caller: SessionCaller, id: string, context: RateContext): Promise<void> {
    if (isId(id) && (await this.#endOthers(caller, id, context)) > 0) return
    throw StaticError.of('not_found', isId(id) ? `There is no session ${id}.` : 'There is no such session.')
  }

  /** Ends all sessions of the account except the caller's own; returns how many. */
  endAllOthers(caller: SessionCaller, context: RateContext): Promise<number> {
    return this.#endOthers(caller, 'all', context)
  }

  async #endOthers(caller: SessionCaller, which: string, context: RateContext): Promise<number> {
    const entry = this.#audit.byUser('session_ended', caller.accountId, context)
    const ended = await this.#store.endOthers(caller.credential.idHash, which, entry)
    if (ended === undefined) throw hasEnded()
    return ended
  }

  /** Signs out. */
  async end(id: string, context: RateContext): Promise<void> {
    await this.#store.remove(hashOf(id), (accountId) => this.#audit.byUser('session_ended', accountId, context))
  }
}

function hasEnded(): StaticError {
  return StaticError.of('auth_failed', 'The session has ended. Sign in again.')
}

/** The id has 256 random bits, so a fast hash is enough. */
function hashOf(id: string): string {
  return createHash('sha256').update(id).digest('hex')
}
