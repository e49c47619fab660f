/** Secrets of devices: random, with a MAC, so that a flood of invented ones causes no queries. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const RANDOM_BYTES = 16
const MAC_BYTES = 16

export class DeviceSecrets {
  readonly #key: Buffer

  /** All nodes have the same master key, so each accepts the secrets of the others. */
  constructor(masterKey: Uint8Array) {
    this.#key = createHmac('sha256', masterKey).update('static devices').digest()
  }

  make(): string {
    const random = randomBytes(RANDOM_BYTES)
    return Buffer.concat([random, this.#macOf(random)]).toString('base64url')
  }

  /** Whether a node created the text. Its device may have ended since then. */
  hasMade(text: string): boolean {
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length !== RANDOM_BYTES + MAC_BYTES || bytes.toString('base64url') !== text) return false
    return timingSafeEqual(bytes.subarray(RANDOM_BYTES), this.#macOf(bytes.subarray(0, RANDOM_BYTES)))
  }

  #macOf(random: Uint8Array): Buffer {
    return createHmac('sha256', this.#key).update(random).digest().subarray(0, MAC_BYTES)
  }
}
