/**
 * Reads from a KeyPackage (RFC 9420 §10) what the relay checks: its form, signature key, capabilities and lifetime.
 * Parsed by hand, because the relay must not even be able to resolve an MLS library. The signature is not checked
 * here; the member that claims the KeyPackage does that.
 */

/** The fields of a KeyPackage that the relay reads. */
export interface KeyPackageFacts {
  readonly signatureKey: Uint8Array
  /** The identity that the agent gave itself. */
  readonly identity: Uint8Array
  /** Extension types in the leaf's capabilities. */
  readonly extensions: readonly number[]
  /** Whether it has a key to which a Welcome can be sealed. */
  readonly sealable: boolean
  /** Entries in the longest list of the leaf's capabilities. */
  readonly longestList: number
  /** Seconds since 1970. */
  readonly notBefore: number
  readonly notAfter: number
}

const MLS_10 = 1
const WIRE_FORMAT_KEY_PACKAGE = 5
const SOURCE_KEY_PACKAGE = 1
const BASIC_CREDENTIAL = 1
/** MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519. */
const SUITE = 1
/** The key to which Welcomes are sealed (SPEC.md, 4.5): a version, then a key of ML-KEM-768. */
export const SEAL_KEY_EXTENSION = 0xf57c
const SEAL_KEY_VERSION = 1
const SEAL_KEY_BYTES = 1 + 1184

/** Reads an MLSMessage that contains a KeyPackage; undefined for anything else. */
export function readKeyPackage(bytes: Uint8Array): KeyPackageFacts | undefined {
  const reader = new Reader(bytes)
  if (reader.number(2) !== MLS_10 || reader.number(2) !== WIRE_FORMAT_KEY_PACKAGE) return undefined
  if (reader.number(2) !== MLS_10 || reader.number(2) !== SUITE) return undefined
  reader.vector() // init_key
  reader.vector() // encryption_key
  const signatureKey = reader.vector()
  if (reader.number(2) !== BASIC_CREDENTIAL) return undefined
  const identity = reader.vector()
  // Versions, suites, extensions, proposals, credentials: each entry has two bytes.
  const capabilities = Array.from({ length: 5 }, () => reader.vector())
  if (reader.number(1) !== SOURCE_KEY_PACKAGE) return undefined
  const notBefore = reader.number(8)
  const notAfter = reader.number(8)
  reader.vector() // extensions of the leaf
  reader.vector() // signature of the leaf
  const own = reader.vector()
  reader.vector() // signature
  if (!reader.complete) return undefined
  const extensions = numbers(capabilities[2] ?? new Uint8Array())
  const longestList = Math.max(...capabilities.map(({ length }) => Math.ceil(length / 2)))
  return { signatureKey, identity, extensions, sealable: hasSealKey(own), longestList, notBefore, notAfter }
}

/** Whether exactly one extension of a KeyPackage is a well-formed key of this kind. */
function hasSealKey(extensions: Uint8Array): boolean {
  const reader = new Reader(extensions)
  const keys: Uint8Array[] = []
  while (!reader.complete && !reader.isShort) {
    const type = reader.number(2)
    const data = reader.vector()
    if (type === SEAL_KEY_EXTENSION) keys.push(data)
  }
  const [key, ...more] = keys
  return reader.complete && more.length === 0 && key?.length === SEAL_KEY_BYTES && key[0] === SEAL_KEY_VERSION
}

/** A list of two-byte numbers. */
function numbers(list: Uint8Array): number[] {
  const reader = new Reader(list)
  return Array.from({ length: Math.floor(list.length / 2) }, () => reader.number(2))
}

/** Reads the TLS presentation language. Reads past the end return nothing and set `complete` to false. */
class Reader {
  readonly #bytes: Uint8Array
  #at = 0
  #short = false

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** Whether everything was read, with no bytes missing or left over. */
  get complete(): boolean {
    return !this.#short && this.#at === this.#bytes.length
  }

  /** Whether something was read past the end. */
  get isShort(): boolean {
    return this.#short
  }

  number(size: number): number {
    let value = 0
    for (const byte of this.#take(size)) value = value * 256 + byte
    return value
  }

  /** A vector with a length prefix of 1, 2 or 4 bytes (RFC 9420 §2.1.2). */
  vector(): Uint8Array {
    const first = this.number(1)
    const prefix = first >>> 6
    if (prefix === 3) this.#short = true
    let length = first & 0x3f
    for (let more = (1 << prefix) - 1; more > 0; more--) length = length * 256 + this.number(1)
    return this.#take(length)
  }

  #take(length: number): Uint8Array {
    if (this.#short || length > this.#bytes.length - this.#at) {
      this.#short = true
      return new Uint8Array()
    }
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }
}
