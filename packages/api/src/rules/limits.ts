/**
 * Rate limits: a maximum number in a window that starts with the first attempt. Limits that keep secrets from being
 * guessed are counted over all nodes (`SharedLimiter`), the others in each process.
 */
import { Pace } from '@static/node/pace'
import type { Clock, RateWindowStore } from '../ports.ts'
import type { Settings } from '../settings.ts'
import { Limiter } from './limiter.ts'
import { SharedLimiter } from './shared-limiter.ts'

/** The number of attempts by a slowed address that may wait for their turn. */
const MOST_SLOWED = 20

export interface Limits {
  readonly account: Limiter
  readonly tokens: Limiter
  readonly keyCreations: Limiter
  readonly signups: Limiter
  /** Failed authentications, by address and by (prefix, address). */
  readonly failures: SharedLimiter
  readonly passwordsPerAddress: SharedLimiter
  readonly passwords: SharedLimiter
  /** Password checks from one device of the account, and from all of them; they count towards no other limit. */
  readonly passwordsPerDevice: SharedLimiter
  readonly passwordsOfDevices: SharedLimiter
  /** Attempts at passwords and links by an address with too many failures: each waits for its turn. */
  readonly slowedAttempts: Pace
}

export interface LimitsOptions {
  readonly rates: Settings['rates']
  /** The store in which shared limits are counted. */
  readonly windows: RateWindowStore
  /** The name of a subject in the database, which must contain neither addresses nor e-mail addresses. */
  readonly nameOf: (policy: string, subject: string) => string
  readonly now: Clock
}

export function makeLimits({ rates, now, ...shared }: LimitsOptions): Limits {
  return {
    account: new Limiter('account', rates.account, now),
    tokens: new Limiter('tokens', rates.tokens, now),
    keyCreations: new Limiter('key-creations', rates.keyCreations, now),
    signups: new Limiter('sign-ups', rates.signups, now),
    failures: new SharedLimiter('failures', rates.failures, { ...shared, now }),
    passwordsPerAddress: new SharedLimiter('passwords-per-address', rates.passwordsPerAddress, { ...shared, now }),
    passwords: new SharedLimiter('passwords', rates.passwords, { ...shared, now }),
    passwordsPerDevice: new SharedLimiter('passwords-per-device', rates.passwordsPerDevice, { ...shared, now }),
    passwordsOfDevices: new SharedLimiter('passwords-of-devices', rates.passwordsOfDevices, { ...shared, now }),
    slowedAttempts: new Pace((rates.slowedAttempts.seconds * 1000) / rates.slowedAttempts.limit, MOST_SLOWED),
  }
}
