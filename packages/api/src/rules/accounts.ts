/** Accounts: sign up, change the password, close. */
import { type Account, type SignedUp, StaticError } from '@static/protocol'
import { admitAttempt } from './attempts.ts'
import type { Audit } from './audit.ts'
import { isoTime } from './calendar.ts'
import type { Caller } from './caller.ts'
import type { Devices } from './devices.ts'
import { isId, newId } from './id.ts'
import { alreadyMade, claimFor, earlier, mismatch, signUpScope } from './idempotency.ts'
import type { Keys } from './keys.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'
import { checkNewPassword, type Passwords } from './password.ts'
import type { AccountRecord, Clock, IdempotencyClaim, Store } from '../ports.ts'
import { inviteInvalid, type SignUpInvites } from './sign-up-invites.ts'
import { cleanName, isEmail, invalidField } from './text.ts'

const FIRST_KEY = 'default'

export interface SignUp {
  readonly email: string
  readonly password: string
  readonly name?: string | undefined
  /** The operator's invite, if sign-up requires one. */
  readonly invite?: string | undefined
}

export interface AccountsOptions {
  readonly store: Store
  readonly keys: Keys
  readonly passwords: Passwords
  readonly devices: Devices
  readonly invites: SignUpInvites
  readonly limits: Limits
  readonly audit: Audit
  readonly now: Clock
}

export class Accounts {
  readonly #store: Store
  readonly #keys: Keys
  readonly #passwords: Passwords
  readonly #devices: Devices
  readonly #invites: SignUpInvites
  readonly #limits: Limits
  readonly #audit: Audit
  readonly #now: Clock

  constructor({ store, keys, passwords, devices, invites, limits, audit, now }: AccountsOptions) {
    this.#store = store
    this.#keys = keys
    this.#passwords = passwords
    this.#devices = devices
    this.#invites = invites
    this.#limits = limits
    this.#audit = audit
    this.#now = now
  }

  /**
   * Creates an account and its first key. Throws `signup_closed`, `signup_invite_invalid`, `email_taken`,
   * `invalid_request` and the idempotency codes.
   */
  async signUp(given: SignUp, idempotencyKey: string | undefined, context: RateContext): Promise<SignedUp> {
    this.#limits.signups.spend(context.address, context)
    this.#invites.requireOpen()
    const { email } = given
    if (!isEmail(email)) throw invalidField('email', 'must be an e-mail address')
    const name = given.name === undefined ? null : cleanName(given.name)
    checkNewPassword(given.password, email, 'password')
    const claim = claimFor(signUpScope(email), idempotencyKey, [email, name], this.#now())
    await this.#refuseRepeat(claim, given.password, context)
    const invite = await this.#invites.check(given.invite, context)
    if (await this.#store.accounts.byEmail(email)) throw taken()

    const passwordHash = await this.#passwords.hash(given.password)
    const now = this.#now()
    const account: AccountRecord = {
      id: newId(now),
      email,
      name,
      passwordHash,
      plan: 'free',
      status: 'active',
      createdAt: now,
    }
    const { record, key } = await this.#keys.make(account.id, FIRST_KEY, 'live')
    const entries = [
      { ...this.#audit.byUser('account_created', account.id, context), inviteId: invite?.selector },
      this.#audit.byUser('key_created', account.id, context, record.id),
    ]
    const result = await this.#store.accounts.create(account, { key: record, claim, invite, entries })
    if (result === 'email_taken') throw taken()
    if (result === 'invite_invalid') throw inviteInvalid()
    if (result === 'claimed') {
      await this.#refuseRepeat(claim, given.password, context)
      throw mismatch()
    }
    return {
      ...publicAccount(account),
      message: 'account created',
      api_key: { id: record.id, key_prefix: record.prefix, name: record.name, key },
    }
  }

  /** The caller's own account. */
  async own(caller: Caller, id: string = caller.accountId): Promise<Account> {
    const account = id === caller.accountId ? await this.#store.accounts.byId(id) : undefined
    if (!account) throw noAccount(id)
    return publicAccount(account)
  }

  /** The account with this id, if the password is correct. */
  async byPassword(id: string, password: string, context: RateContext): Promise<AccountRecord> {
    if (!isId(id)) throw noAccount(id)
    return this.#check(() => this.#store.accounts.byId(id), id, password, context)
  }

  /** The account with this e-mail address, if the password is correct. */
  async byEmail(email: string, password: string, context: RateContext): Promise<AccountRecord> {
    const find = async (): Promise<AccountRecord | undefined> =>
      isEmail(email) ? this.#store.accounts.byEmail(email) : undefined
    return this.#check(find, email.normalize('NFC').toLowerCase(), password, context)
  }

  /**
   * Sets a new password and ends every sign-in session and device. Returns the secret of a new device, for a browser.
   */
  async changePassword(id: string, current: string, next: string, context: RateContext): Promise<string | undefined> {
    const account = await this.byPassword(id, current, context)
    checkNewPassword(next, account.email, 'new_password')
    const hash = await this.#passwords.hash(next)
    const entry = this.#audit.byUser('password_changed', id, context)
    const done = await this.#store.accounts.setPassword(id, account.passwordHash, hash, entry)
    if (!done) throw changedMeanwhile()
    return this.#devices.remember(id, hash, context)
  }

  /** Closes the account: revokes its keys, ends its sessions and devices and erases personal data. The row stays. */
  async close(id: string, password: string, context: RateContext): Promise<void> {
    const account = await this.byPassword(id, password, context)
    const entry = this.#audit.byUser('account_closed', id, context)
    const done = await this.#store.accounts.close(id, account.passwordHash, entry)
    if (!done) throw changedMeanwhile()
  }

  /** The account that `find` returns, if the password is correct; `name` is the name that the caller gave for it. */
  async #check(
    find: () => Promise<AccountRecord | undefined>,
    name: string,
    password: string,
    context: RateContext,
  ): Promise<AccountRecord> {
    const { passwordsPerDevice, passwordsOfDevices } = this.#limits
    const device = await this.#devices.of(context)
    if (device) {
      passwordsPerDevice.refuseIfFull(device.idHash, context)
      passwordsOfDevices.refuseIfFull(device.accountId, context)
    }
    const attempt = device ? undefined : await admitAttempt(this.#limits, context)
    const account = await find()
    const own = device?.accountId === account?.id ? device : undefined
    // Anyone can have a device of their own account, which must not make attempts at other accounts cheaper.
    if (device && !own) await passwordsPerDevice.spend(device.idHash, context)
    const from = own ?? attempt ?? (await admitAttempt(this.#limits, context))
    return this.#passwords.check(account, password, account?.id ?? name, context, from)
  }

  async #refuseRepeat(claim: IdempotencyClaim | undefined, password: string, context: RateContext): Promise<void> {
    const id = await earlier(this.#store.idempotency, claim, this.#now)
    if (id === undefined) return
    try {
      await this.byPassword(id, password, context)
    } catch (error) {
      if (error instanceof StaticError && error.code === 'invalid_credentials') throw mismatch()
      throw error
    }
    throw alreadyMade(id)
  }
}

/** An account as its holder sees it. */
export function publicAccount(account: AccountRecord): Account {
  const { id, email, name, plan, status, createdAt } = account
  return { id, email, name, plan, status, created_at: isoTime(createdAt) }
}

/** The error if another account has the e-mail address. */
export function taken(): StaticError {
  return StaticError.of('email_taken', 'An account with this e-mail address already exists.')
}

/** The account does not exist or is not the caller's. Echoes only well-formed ids: anything else might be a secret. */
export function noAccount(id: string): StaticError {
  return StaticError.of('not_found', isId(id) ? `There is no account ${id}.` : 'There is no such account.')
}

function changedMeanwhile(): StaticError {
  return StaticError.of('invalid_credentials', 'Another request changed the password. Use the new one.')
}
