/** Passwords: which ones are allowed, and how they are checked. */
import { StaticError } from '@static/protocol'
import { COMMON_PASSWORDS } from './common-passwords.ts'
import type { Attempt } from './attempts.ts'
import type { Audit } from './audit.ts'
import type { Hasher } from '../secrets/hash.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'
import type { AccountRecord, DeviceRecord } from '../ports.ts'
import { invalidField } from './text.ts'

/** Normalizes a password before it is hashed; it is never trimmed. */
function normal(password: string): string {
  return password.normalize('NFC')
}

/** Throws `invalid_request` for a password that is common or the same as the e-mail address. */
export function checkNewPassword(password: string, email: string, field: string): void {
  if (!password.isWellFormed()) throw invalidField(field, 'must be valid Unicode')
  const plain = password.toLowerCase()
  const same = new Set(plain).size <= 2
  if (same || COMMON_PASSWORDS.has(plain) || plain === email.toLowerCase()) {
    throw invalidField(field, 'is too easy to guess: choose another')
  }
}

export class Passwords {
  readonly #hasher: Hasher
  readonly #limits: Limits
  readonly #audit: Audit

  constructor(hasher: Hasher, limits: Limits, audit: Audit) {
    this.#hasher = hasher
    this.#limits = limits
    this.#audit = audit
  }

  hash(password: string): Promise<string> {
    return this.#hasher.hash(normal(password))
  }

  /**
   * Returns the account if the password is correct. An account that does not exist or is closed takes the same time and
   * gives the same error, `invalid_credentials`. `subject` is the name that the caller gave: limits must not reveal
   * whether the account exists either. `from` is a device of the account, which has its own attempts, or else an
   * admitted attempt of an address.
   */
  async check(
    account: AccountRecord | undefined,
    password: string,
    subject: string,
    context: RateContext,
    from: DeviceRecord | Attempt,
  ): Promise<AccountRecord> {
    const given = normal(password)
    const open = account && account.status !== 'closed' ? account : undefined
    const counted = await this.#count(subject, context, from)
    let matches: boolean
    try {
      const { lane } = counted
      matches = await (open ? this.#hasher.verify(open.passwordHash, given, lane) : this.#hasher.refuse(given, lane))
    } catch (error) {
      await counted.refund()
      throw error
    }
    if (!open || !matches) {
      if (open) this.#audit.failed(open.id, context)
      throw StaticError.of('invalid_credentials', 'The e-mail address or the password is wrong.')
    }
    if ('refund' in from) {
      await from.refund()
      await this.#limits.passwords.refund(subject)
    }
    if (open.status === 'suspended') throw StaticError.of('account_suspended')
    return open
  }

  /**
   * Counts an attempt towards its limits before it is made; `refund` takes it back from all of them. An attempt refused
   * by a password limit still counts as a failure of its address, which is slowed if it keeps trying.
   */
  async #count(subject: string, context: RateContext, from: DeviceRecord | Attempt): Promise<Attempt> {
    const { passwords, passwordsPerAddress, passwordsPerDevice, passwordsOfDevices } = this.#limits
    if ('idHash' in from) {
      const { idHash, accountId } = from
      const tries = await passwordsPerDevice.spend(idHash, context)
      await passwordsOfDevices.spend(accountId, context).catch(async (error: unknown) => {
        await passwordsPerDevice.refund(idHash)
        throw error
      })
      const refund = async (): Promise<void> => {
        await passwordsPerDevice.refund(idHash)
        await passwordsOfDevices.refund(accountId)
      }
      // Anyone can have devices of their own account, and checking a correct password costs as much as a wrong one.
      return { lane: tries === 1 ? 'clean' : 'suspect', refund }
    }
    const pair = `${subject} ${context.address}`
    try {
      passwords.refuseIfFull(subject, context)
      // In this order: attempts refused for one address must not use up the limit of the account's owner.
      await passwordsPerAddress.spend(pair, context)
      await passwords.spend(subject, context).catch(async (error: unknown) => {
        await passwordsPerAddress.refund(pair)
        throw error
      })
    } catch (error) {
      if (StaticError.from(error).code !== 'rate_limited') await from.refund()
      throw error
    }
    const refund = async (): Promise<void> => {
      await from.refund()
      await passwordsPerAddress.refund(pair)
      await passwords.refund(subject)
    }
    return { lane: from.lane, refund }
  }
}
