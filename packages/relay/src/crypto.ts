/** The cryptography of the core: node:crypto, and libsodium for signatures where it loads. */
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { sameBytes } from '@static/node/compare'
import { ed25519 } from '@static/node/ed25519'
import type { CoreCrypto } from './core/io.ts'

export function makeCrypto(): CoreCrypto {
  return {
    hash: (bytes) => createHash('sha256').update(bytes).digest(),
    verify: (publicKey, bytes, signature) => ed25519.verifier(publicKey)(bytes, signature),
    mac: (key, bytes) => createHmac('sha256', key).update(bytes).digest(),
    equal: sameBytes,
    random: (length) => randomBytes(length),
  }
}
