/** Set-password links: the operator hands one out, and anyone who has it can set the password of its account, once. */
import { type Account, StaticError } from '@static/protocol'
import { opens, parseOneTimeToken } from '../secrets/one-time-token.ts'
import { admitAttempt } from './attempts.ts'
import { publicAccount } from './accounts.ts'
import type { Audit } from './audit.ts'
import type { Devices } from './devices.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'
import { checkNewPassword, type Passwords } from './password.ts'
import type { Clock, Store } from '../ports.ts'

export class PasswordLinks {
  readonly #store: Pick<Store, 'links' | 'accounts'>
  readonly #passwords: Passwords
  readonly #devices: Devices
  readonly #limits: Limits
  readonly #audit: Audit
  readonly #now: Clock

  constructor(
    store: Pick<Store, 'links' | 'accounts'>,
    passwords: Passwords,
    devices: Devices,
    limits: Limits,
    audit: Audit,
    now: Clock,
  ) {
    this.#store = store
    this.#passwords = passwords
    this.#devices = devices
    this.#limits = limits
    this.#audit = audit
    this.#now = now
  }

  /**
   * Sets the password and ends every session and device of the account. Returns the secret of a new device, for a
   * browser. Throws `password_link_invalid`, with the same message for every reason, `account_suspended`, and
   * `invalid_request` for a bad password, which does not use up the link.
   */
  async use(
    text: string,
    next: string,
    context: RateContext,
  ): Promise<{ account: Account; device: string | undefined }> {
    const attempt = await admitAttempt(this.#limits, context)
    const token = parseOneTimeToken('pw', text)
    const link = token && (await this.#store.links.find(token.selector))
    if (!token || !opens(token, link, this.#now()) || link.accountId === null) throw linkInvalid()
    await attempt.refund()
    const account = await this.#store.accounts.byId(link.accountId)
    if (!account || account.status === 'closed') throw linkInvalid()
    if (account.status === 'suspended') throw StaticError.of('account_suspended')
    checkNewPassword(next, account.email, 'new_password')
    const hash = await this.#passwords.hash(next)
    const entry = this.#audit.byUser('password_set', account.id, context)
    if (!(await this.#store.links.setPassword(link, hash, entry))) throw linkInvalid()
    return { account: publicAccount(account), device: await this.#devices.remember(account.id, hash, context) }
  }
}

function linkInvalid(): StaticError {
  return StaticError.of(
    'password_link_invalid',
    'The set-password link is unknown, mistyped, expired or already used. Ask the operator of this server for a new one.',
  )
}
