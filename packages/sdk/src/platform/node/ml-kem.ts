/** ML-KEM-768 by OpenSSL, where Node has it (24.7 and newer, unless linked with an old OpenSSL), otherwise in JavaScript. */
// The default export, because older versions of Node do not have all of these functions.
import crypto, { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { createRequire } from 'node:module'
import type { ml_kem768 } from '@noble/post-quantum/ml-kem.js'
import { KEM_CIPHERTEXT_BYTES, KEM_PUBLIC_BYTES, KEM_SEED_BYTES, type MlKem, nobleMlKem } from '../ml-kem.ts'

/** The PKCS #8 prefix of a seed, and the SPKI prefix of an encapsulation key (RFC 9935). */
const SEED_DER = Buffer.from('3054020100300b060960864801650304040204428040', 'hex')
const PUBLIC_DER = Buffer.from('308204b2300b0609608648016503040402038204a100', 'hex')

/** By OpenSSL. Older versions of Node throw at each call. */
export const nodeMlKem: MlKem = {
  name: 'node:crypto',
  publicKeyOf: (seed) => {
    const spki = createPublicKey(privateKeyOf(seed)).export({ format: 'der', type: 'spki' })
    return new Uint8Array(spki.subarray(-KEM_PUBLIC_BYTES))
  },
  encapsulator: (publicKey) => {
    checkLength('encapsulation key', publicKey, KEM_PUBLIC_BYTES)
    const key = createPublicKey({ key: Buffer.concat([PUBLIC_DER, publicKey]), format: 'der', type: 'spki' })
    return () => {
      const { ciphertext, sharedKey } = crypto.encapsulate(key)
      return { ciphertext: new Uint8Array(ciphertext), secret: sharedKey }
    }
  },
  decapsulate: (seed, ciphertext) => {
    checkLength('ciphertext', ciphertext, KEM_CIPHERTEXT_BYTES)
    return crypto.decapsulate(privateKeyOf(seed), ciphertext)
  },
}

export const mlKem768: MlKem = isInNode() ? nodeMlKem : nobleMlKem(loadNoble())

function isInNode(): boolean {
  try {
    nodeMlKem.publicKeyOf(new Uint8Array(KEM_SEED_BYTES))
    return 'encapsulate' in crypto
  } catch {
    return false
  }
}

/** Loaded only where it is needed. Not an `import()`, which would make every importer asynchronous. */
function loadNoble(): typeof ml_kem768 {
  const require = createRequire(import.meta.url)
  return (require('@noble/post-quantum/ml-kem.js') as { readonly ml_kem768: typeof ml_kem768 }).ml_kem768
}

function privateKeyOf(seed: Uint8Array): KeyObject {
  checkLength('seed', seed, KEM_SEED_BYTES)
  const der = Buffer.concat([SEED_DER, seed])
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  der.fill(0)
  return key
}

function checkLength(what: string, { length }: Uint8Array, bytes: number): void {
  if (length !== bytes) throw new RangeError(`The ${what} must be ${bytes} bytes, not ${length}.`)
}
