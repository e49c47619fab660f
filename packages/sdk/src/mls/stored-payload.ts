/**
 * Payloads on the agent's own disk that no MLS message holds alone: those of a pack. Each is encrypted under its own
 * random key, which is used once and deleted with it, as a message key is deleted with its message.
 */
import { decrypt, encryptInto, randomBytes } from '#platform/crypto'
import { StaticError } from '@static/protocol'
import { TAG_BYTES } from './aead.ts'

export interface StoredPayload {
  readonly ciphertext: Uint8Array
  readonly messageKey: Uint8Array
}

const CIPHER = 'aes-256-gcm'
/** Longer than the key and nonce of an MLS message in a channel, which are 28 bytes: the length tells them apart. */
const KEY_BYTES = 32
/** No key is used twice. */
const NONCE: Uint8Array = new Uint8Array(12)
const NO_DATA = new Uint8Array()

/** The length of the ciphertext of a payload. */
export function storedBytes(payload: Uint8Array): number {
  return payload.length + TAG_BYTES
}

export function sealPayload(payload: Uint8Array): StoredPayload {
  const messageKey = randomBytes(KEY_BYTES)
  const ciphertext = new Uint8Array(storedBytes(payload))
  encryptInto(ciphertext, 0, { cipher: CIPHER, key: messageKey, nonce: NONCE, data: NO_DATA }, payload)
  return { ciphertext, messageKey }
}

/** Whether a stored message has a key from `sealPayload`. */
export function isPayloadKey(messageKey: Uint8Array): boolean {
  return messageKey.length === KEY_BYTES
}

/**
 * Decrypts a payload.
 *
 * @throws {StaticError} `decryption_failure`
 */
export function openPayload({ ciphertext, messageKey }: StoredPayload): Uint8Array {
  try {
    return decrypt({ cipher: CIPHER, key: messageKey, nonce: NONCE, data: NO_DATA }, ciphertext)
  } catch (cause) {
    throw StaticError.of('decryption_failure', 'A stored payload cannot be decrypted.', { cause })
  }
}
