/**
 * Tags for secrets that have been verified: a MAC under a key that only this process knows, so that the cached tag of a
 * secret is useless anywhere else.
 */
import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import type { Sodium } from '@static/node/sodium'

const KEY_BYTES = 32
const TAG_BYTES = 32

/** Creates a tagging function; each has its own random key. */
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
