/**
 * The clock, the timers and the random sources of this process, replaced by those of a world: code under test needs no
 * seams for them. Everything that the product computes is synchronous or a promise, so nothing else decides an order.
 */
import type { CipherGCM, KeyObject } from 'node:crypto'
import { createRequire, syncBuiltinESMExports } from 'node:module'

/** A world's replacements for them. */
export interface Environment {
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly random: () => number
  readonly bytes: (length: number) => Buffer
  readonly later: (milliseconds: number, action: () => void) => Cancel
  readonly every: (milliseconds: number, action: () => void) => Cancel
  /** Runs something after the current task. */
  readonly soon: (action: () => void) => Cancel
  /** Something was encrypted: the hash of the key, and the ciphertext with its tag. */
  readonly sealed: (key: string, sealed: Uint8Array) => void
}

type Cancel = () => void

const crypto = process.getBuiltinModule('node:crypto')
const realImmediate = globalThis.setImmediate

/** The SDK's own ML-KEM in JavaScript: unlike OpenSSL's, it takes its random bytes as an argument. */
const { ml_kem768: mlKem } = createRequire(import.meta.resolve('@static/sdk'))('@noble/post-quantum/ml-kem.js') as {
  readonly ml_kem768: {
    encapsulate(key: Uint8Array, random: Uint8Array): Record<'cipherText' | 'sharedSecret', Uint8Array>
  }
}
const KEM_PUBLIC_BYTES = 1184

/** PKCS #8 prefixes of 32-byte private keys (RFC 8410). */
const PREFIXES = {
  ed25519: Buffer.from('302e020100300506032b657004220420', 'hex'),
  x25519: Buffer.from('302e020100300506032b656e04220420', 'hex'),
} as const

/** Resolves when nothing more can happen without outside events: every chain of promises has ended. */
export function quiet(): Promise<void> {
  return new Promise((resolve) => void realImmediate(resolve))
}

/** Installs a world's environment. Returns a function that removes it. */
export function enter(environment: Environment): () => void {
  const undo = [
    replace(globalThis, timers(environment)),
    replace(Date, { now: () => environment.now() }),
    replace(Math, { random: () => environment.random() }),
    replace(performance, { now: () => environment.now() - performance.timeOrigin }),
    replace(crypto, { ...randomness(environment), ...watched(environment) }),
  ]
  syncBuiltinESMExports()
  return () => {
    for (const back of undo) back()
    syncBuiltinESMExports()
  }
}

/** A timer that does nothing on its own; `unref` and the like have nothing to do. */
class Handle {
  readonly cancel: Cancel

  constructor(cancel: Cancel) {
    this.cancel = cancel
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

function timers({ later, every, soon }: Environment): object {
  type Action = (...values: unknown[]) => void
  const clear = (handle: unknown): void => {
    if (handle instanceof Handle) handle.cancel()
  }
  return {
    setTimeout: (action: Action, ms = 0, ...values: unknown[]) => new Handle(later(ms, () => action(...values))),
    setInterval: (action: Action, ms = 0, ...values: unknown[]) => new Handle(every(ms, () => action(...values))),
    setImmediate: (action: Action, ...values: unknown[]) => new Handle(soon(() => action(...values))),
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  }
}

function randomness({ bytes, random }: Environment): object {
  return {
    randomBytes: bytes,
    // Stocks outlive a world, so their content must not depend on how much an earlier world used.
    randomFillSync: (target: Uint8Array) => target.fill(0),
    randomInt: (first: number, end?: number) => {
      const from = end === undefined ? 0 : first
      return from + Math.floor(random() * ((end ?? first) - from))
    },
    generateKeyPairSync: (type: keyof typeof PREFIXES): { privateKey: KeyObject; publicKey: KeyObject } => {
      const key = Buffer.concat([PREFIXES[type], bytes(32)])
      const privateKey = crypto.createPrivateKey({ key, format: 'der', type: 'pkcs8' })
      return { privateKey, publicKey: crypto.createPublicKey(privateKey) }
    },
    encapsulate: (key: KeyObject): { ciphertext: Buffer; sharedKey: Buffer } => {
      const publicKey = Uint8Array.from(key.export({ format: 'der', type: 'spki' }).subarray(-KEM_PUBLIC_BYTES))
      const { cipherText, sharedSecret } = mlKem.encapsulate(publicKey, Uint8Array.from(bytes(32)))
      return { ciphertext: Buffer.from(cipherText), sharedKey: Buffer.from(sharedSecret) }
    },
  }
}

/** Real encryption, with a report of each call. Keys are wiped after use, so they are hashed at once. */
function watched({ sealed }: Environment): object {
  const create = crypto.createCipheriv as (...values: unknown[]) => CipherGCM
  return {
    createCipheriv: (suite: string, key: Uint8Array, nonce: Uint8Array, options: object): CipherGCM => {
      const cipher = create(suite, key, nonce, options)
      const name = crypto.hash('sha256', key)
      const update = cipher.update.bind(cipher) as (plaintext: Uint8Array) => Buffer
      const getAuthTag = cipher.getAuthTag.bind(cipher)
      const parts: Buffer[] = []
      return Object.assign(cipher, {
        update: (plaintext: Uint8Array) => {
          const part = update(plaintext)
          parts.push(part)
          return part
        },
        getAuthTag: () => {
          const tag = getAuthTag()
          sealed(name, Buffer.concat([...parts, tag]))
          return tag
        },
      })
    },
  }
}

/** Replaces properties; returns a function that restores them. */
function replace(target: object, values: object): () => void {
  const before = Object.keys(values).map((key) => [key, Object.getOwnPropertyDescriptor(target, key)] as const)
  for (const [key, value] of Object.entries(values)) {
    Object.defineProperty(target, key, { value, configurable: true, writable: true, enumerable: true })
  }
  return () => {
    for (const [key, descriptor] of before) {
      if (descriptor) Object.defineProperty(target, key, descriptor)
      else Reflect.deleteProperty(target, key)
    }
  }
}
