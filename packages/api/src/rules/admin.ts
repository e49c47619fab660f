/** Actions on accounts by the operator of the service, who has access to its database. */
import { randomBytes } from 'node:crypto'
import {
  type Account,
  type AccountStatus,
  type AuditEvent,
  type AuditPage,
  type Plan,
  type RequestedDeletion,
  StaticError,
} from '@static/protocol'
import { Hasher } from '../secrets/hash.ts'
import { makeOneTimeToken, type TokenPurpose } from '../secrets/one-time-token.ts'
import { noAccount, publicAccount, taken } from './accounts.ts'
import { readAudit } from './audit.ts'
import { isoTime } from './calendar.ts'
import { type DeletionTarget, requestDeletion } from './deletions.ts'
import { isId, newId } from './id.ts'
import type { AuditEntry, Clock, LinkRecord, OperatorEntry, Store } from '../ports.ts'
import { DEFAULT_SETTINGS } from '../settings.ts'
import { cleanName, invalidField, isEmail } from './text.ts'

/** A one-time link, with the token that is shown once. */
export interface OperatorLink {
  readonly token: string
  readonly expires_at: string
}

/** A sign-up invite that can still be used. The id alone does not allow signing up. */
export interface SignUpInvite {
  readonly id: string
  readonly created_at: string
  readonly expires_at: string
}

/** A page of accounts, oldest first. */
export interface AccountPage {
  readonly accounts: readonly Account[]
  /** The `after` of the next page; null on the last one. */
  readonly next: string | null
}

export class Admin {
  readonly #store: Pick<Store, 'accounts' | 'links' | 'audit' | 'deletions'>
  readonly #hasher = new Hasher(DEFAULT_SETTINGS.argon2)
  readonly #now: Clock

  constructor(store: Pick<Store, 'accounts' | 'links' | 'audit' | 'deletions'>, now: Clock = Date.now) {
    this.#store = store
    this.#now = now
  }

  /** Reads any account. Throws `not_found`. */
  async inspect(id: string): Promise<Account> {
    const account = isId(id) ? await this.#store.accounts.byId(id) : undefined
    if (!account) throw noAccount(id)
    return publicAccount(account)
  }

  /** A page of accounts, optionally only those whose e-mail address or name contains the text, or whose id it is. */
  async list(query: {
    readonly text?: string | undefined
    readonly status?: AccountStatus | undefined
    readonly after?: string | undefined
    readonly limit: number
  }): Promise<AccountPage> {
    const { after, limit } = query
    if (after !== undefined && !isId(after)) throw invalidField('after', 'must be the id of an account')
    const found = await this.#store.accounts.list({ ...query, limit: limit + 1 })
    const accounts = found.slice(0, limit).map(publicAccount)
    return { accounts, next: found.length > limit ? (accounts.at(-1)?.id ?? null) : null }
  }

  /**
   * Creates an account without keys and without a known password, and a link that sets one. Throws `email_taken`,
   * `invalid_request`.
   */
  async create(email: string, name: string | undefined, hours: number): Promise<Account & OperatorLink> {
    if (!isEmail(email) || email.length > 254) throw invalidField('email', 'must be an e-mail address')
    const passwordHash = await this.#hasher.hash(randomBytes(32).toString('hex'))
    const now = this.#now()
    const account = {
      id: newId(now),
      email,
      name: name === undefined ? null : cleanName(name),
      passwordHash,
      plan: 'free',
      status: 'active',
      createdAt: now,
    } as const
    const entries = [this.#entry('account_created', account.id)]
    if ((await this.#store.accounts.create(account, { entries })) !== 'created') throw taken()
    return { ...publicAccount(account), ...(await this.passwordLink(account.id, hours)) }
  }

  /** Creates a link that sets the password of an account. An earlier link no longer works. */
  async passwordLink(id: string, hours: number): Promise<OperatorLink> {
    const { link, token } = this.#link('pw', id, hours)
    const done = isId(id) && (await this.#store.links.create(link, this.#entry('password_link_created', id)))
    if (!done) throw noAccount(id)
    return { token, expires_at: isoTime(link.expiresAt) }
  }

  /** Creates an invite with which one person can sign up. */
  async invite(hours: number): Promise<OperatorLink & SignUpInvite> {
    const { link, token } = this.#link('su', null, hours)
    await this.#store.links.create(link, this.#inviteEntry('signup_invite_created', link.selector))
    return { token, ...publicInvite(link) }
  }

  /** The sign-up invites that can still be used, the next to expire first. */
  async invites(limit: number): Promise<readonly SignUpInvite[]> {
    return (await this.#store.links.invites(this.#now(), limit)).map(publicInvite)
  }

  /** Revokes a sign-up invite. Throws `not_found`. */
  async revokeInvite(id: string): Promise<void> {
    if (await this.#store.links.revokeInvite(id, this.#inviteEntry('signup_invite_revoked', id))) return
    throw StaticError.of('not_found', `There is no sign-up invite ${id}. It may have been used or revoked, or expired.`)
  }

  /** Changes the plan. The quota changes immediately; tokens already issued keep the old plan. */
  async setPlan(id: string, plan: Plan): Promise<void> {
    const entry = { ...this.#entry('plan_changed', id), plan }
    if (!(await this.#store.accounts.change(id, { plan }, entry))) throw noAccount(id)
  }

  /** Suspends or reactivates an account. Its keys and sessions are refused from the next request. */
  async setSuspended(id: string, suspended: boolean): Promise<void> {
    const status = suspended ? 'suspended' : 'active'
    const entry = this.#entry(suspended ? 'account_suspended' : 'account_resumed', id)
    if (!(await this.#store.accounts.change(id, { status }, entry))) throw noAccount(id)
  }

  /** Closes an account, as its owner can: revokes its keys, ends its sessions and erases personal data. */
  async close(id: string): Promise<void> {
    if (await this.#store.accounts.close(id, undefined, this.#entry('account_closed', id))) return
    const { status } = await this.inspect(id)
    throw StaticError.of('not_found', `The account ${id} is already ${status}.`)
  }

  /** Queues the deletion of a channel of an account, even of a closed one. Throws `invalid_request`, `rate_limited`. */
  async deleteChannel(id: string, target: DeletionTarget): Promise<RequestedDeletion> {
    return await requestDeletion(this.#store.deletions, target, this.#entry('channel_deletion_requested', id))
  }

  /** A page of the audit log, of one account or of all, newest first. */
  async audit(id: string | undefined, before: string | undefined, limit: number): Promise<AuditPage> {
    if (id !== undefined) await this.inspect(id)
    return readAudit(this.#store.audit, id, before, limit)
  }

  #entry(event: AuditEvent, accountId: string): AuditEntry {
    return { accountId, at: this.#now(), actor: 'admin', event }
  }

  #inviteEntry(event: AuditEvent, inviteId: string): OperatorEntry {
    return { accountId: null, at: this.#now(), actor: 'admin', event, inviteId }
  }

  #link(purpose: TokenPurpose, accountId: string | null, hours: number): { token: string; link: LinkRecord } {
    const { text: token, selector, secretHash } = makeOneTimeToken(purpose)
    const createdAt = this.#now()
    return { token, link: { selector, secretHash, accountId, createdAt, expiresAt: createdAt + hours * 3600_000 } }
  }
}

function publicInvite({ selector, createdAt, expiresAt }: LinkRecord): SignUpInvite {
  return { id: selector, created_at: isoTime(createdAt), expires_at: isoTime(expiresAt) }
}
