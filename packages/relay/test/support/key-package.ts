/** KeyPackages as the relay reads them (RFC 9420 §10): the right form, any content. */
import { randomBytes } from 'node:crypto'

/** One with this signature key and these extension types in its capabilities; times in seconds. */
export function makeKeyPackage(
  signatureKey: Uint8Array,
  options: {
    notBefore?: number
    notAfter?: number
    extensions?: readonly number[]
    identity?: string
    /** The data of extensions that look like keys to seal Welcomes. */
    sealKeys?: readonly Uint8Array[]
  } = {},
): Uint8Array {
  const now = Math.floor(Date.now() / 1000)
  const {
    notBefore = now - 60,
    notAfter = now + 86_400,
    extensions = [0xf57a, 0xf57c],
    identity = 'somebody',
  } = options
  const { sealKeys = [makeSealKey()] } = options
  return new Uint8Array(
    Buffer.concat([
      number(1, 2), // MLSMessage: version
      number(5, 2), // wire format: KeyPackage
      number(1, 2), // KeyPackage: version
      number(1, 2), // suite
      vector(randomBytes(32)), // init_key
      vector(randomBytes(32)), // encryption_key
      vector(signatureKey),
      number(1, 2), // basic credential
      vector(Buffer.from(identity)),
      ...[[1], [1], extensions, [1], [1]].map((list) => vector(Buffer.concat(list.map((type) => number(type, 2))))), // capabilities
      number(1, 1), // source: KeyPackage
      number(notBefore, 8),
      number(notAfter, 8),
      vector(Buffer.of()), // extensions of the leaf
      vector(randomBytes(64)), // signature of the leaf
      vector(Buffer.concat(sealKeys.flatMap((key) => [number(0xf57c, 2), vector(key)]))), // extensions
      vector(randomBytes(64)), // signature
    ]),
  )
}

/** What the relay takes for a key of ML-KEM-768: it does not look inside. */
export function makeSealKey(): Uint8Array {
  return Buffer.concat([Buffer.of(1), randomBytes(1184)])
}

function number(value: number, size: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes.subarray(8 - size)
}

function vector(bytes: Uint8Array): Buffer {
  const length = bytes.length < 64 ? number(bytes.length, 1) : number(0x4000 + bytes.length, 2)
  return Buffer.concat([length, bytes])
}
