/**
 * Devices: browsers in which someone has signed in to an account. A random secret in a cookie, stored only as a hash,
 * gives the browser attempts at that account's password that no one else can use up. It does not replace the password.
 */
import { createHash } from 'node:crypto'
import type { RateContext } from './rate-policy.ts'
import type { Clock, DeviceRecord, DeviceStore } from '../ports.ts'
import type { DeviceSecrets } from '../secrets/device-secrets.ts'

/** Maximum number of devices per account; the least recently used is dropped first. */
const MOST_DEVICES = 16
/** How long a device lasts after its last sign-in. */
export const DEVICE_SECONDS: number = 365 * 24 * 3600

export class Devices {
  readonly #store: DeviceStore
  readonly #secrets: DeviceSecrets
  readonly #now: Clock

  constructor(store: DeviceStore, secrets: DeviceSecrets, now: Clock) {
    this.#store = store
    this.#secrets = secrets
    this.#now = now
  }

  /**
   * The device that a request comes from, of any account. No limit has been applied yet, because this looks up no other
   * secret.
   */
  async of({ browser }: RateContext): Promise<DeviceRecord | undefined> {
    const secret = browser?.device
    if (secret === undefined || !this.#secrets.hasMade(secret)) return undefined
    return this.#store.find(hashOf(secret), this.#now())
  }

  /**
   * The secret for the cookie of a browser that has just proved or set the password: its existing one, if that belongs
   * to this account, or a new one. Undefined for other programs, or if the password hash has changed.
   */
  async remember(accountId: string, passwordHash: string, context: RateContext): Promise<string | undefined> {
    if (!context.browser) return undefined
    const known = await this.of(context)
    const own = known?.accountId === accountId ? context.browser.device : undefined
    const secret = own ?? this.#secrets.make()
    const expiresAt = this.#now() + DEVICE_SECONDS * 1000
    const device = { idHash: hashOf(secret), accountId, expiresAt }
    return (await this.#store.put(device, passwordHash, MOST_DEVICES)) ? secret : undefined
  }
}

/** The secret has 128 random bits, so a fast hash is enough. */
function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}
