/**
 * Tags for secrets that were checked once: a MAC under a key that only this process knows, so that what is remembered
 * of a secret is worth nothing anywhere else.
 */
import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import type { Sodium } from '@static/node/sodium'

const KEY_BYTES = 32
const TAG_BYTES = 32

/** Makes the function that tags; each has a key of its own. */
export function makeTagger(sodium: Sodium | undefined): (secret: string) => string {
  if (!sodium) {
    const key = createSecretKey(randomBytes(KEY_BYTES))
    return (secret) => createHmac('sha256', key).update(secret).digest('latin1')
  }
  const key = sodium.sodium_malloc(KEY_BYTES)
  key.set(randomBytes(KEY_BYTES))
  const tag = Buffer.alloc(TAG_BYTES)
  return (secret) => {
    sodium.crypto_generichash(tag, Buffer.from(secret), key)
    return tag.toString('latin1')
  }
}
