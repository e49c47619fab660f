/** Encrypts small secrets at rest: AES-256-GCM under the master key, bound to a purpose. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { StaticError } from '@static/protocol'

const NONCE = 12
const TAG = 16

export const MASTER_KEY_BYTES = 32

/** Seals a secret. The same `purpose` is needed to open it. */
export function seal(masterKey: Uint8Array, secret: Uint8Array, purpose: string): string {
  const nonce = randomBytes(NONCE)
  const cipher = createCipheriv('aes-256-gcm', masterKey, nonce).setAAD(Buffer.from(purpose))
  return Buffer.concat([nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]).toString('base64')
}

/** Opens a sealed secret. Throws `store_key_wrong` if key, purpose or bytes are wrong. */
export function unseal(masterKey: Uint8Array, sealed: string, purpose: string): Buffer {
  const bytes = Buffer.from(sealed, 'base64')
  try {
    const decipher = createDecipheriv('aes-256-gcm', masterKey, bytes.subarray(0, NONCE), { authTagLength: TAG })
    decipher.setAAD(Buffer.from(purpose)).setAuthTag(bytes.subarray(-TAG))
    return Buffer.concat([decipher.update(bytes.subarray(NONCE, -TAG)), decipher.final()])
  } catch (cause) {
    throw StaticError.of('store_key_wrong', 'The master key does not open the signing keys in this database.', {
      cause,
    })
  }
}
