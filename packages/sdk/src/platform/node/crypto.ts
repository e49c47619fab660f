/**
 * Cryptography by Node and libsodium: `#platform/crypto` in Node. Everything but the parts of files is synchronous: Web
 * Crypto switches threads for every hash. Results may be Buffers, which are Uint8Arrays, so none is copied to convert it. JavaScript
 * cannot guarantee that no copy of a secret stays in memory.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  generateKeyPairSync,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes as newRandomBytes,
  randomFillSync,
  webcrypto,
  X509Certificate,
} from 'node:crypto'
import type { SignatureKeyPair } from '@static/node/ed25519'
import { sodium } from '@static/node/sodium'

export { sameBytes } from '@static/node/compare'
export { ed25519, generateSignatureKeyPair, type SignatureKeyPair, type Verifier } from '@static/node/ed25519'
export { mlKem768 } from './ml-kem.ts'

/** Signs with a fixed key. */
export type Signer = (bytes: Uint8Array) => Uint8Array

// ---- Randomness ----

export function randomBytes(length: number): Uint8Array {
  return new Uint8Array(newRandomBytes(length))
}

/** Fills an array with random bytes. */
export function fillRandom(target: Uint8Array): void {
  randomFillSync(target)
}

// ---- SHA-256, HMAC (RFC 2104) and HKDF (RFC 5869) ----

export function sha256(bytes: Uint8Array): Uint8Array {
  return hash('sha256', bytes, 'buffer')
}

/** Writes the SHA-256 digest (FIPS 180-4) of `bytes` to the 32 bytes of `target`. The fastest way for a few bytes. */
export const sha256Into: (target: Uint8Array, bytes: Uint8Array) => void = sodium
  ? sodium.crypto_hash_sha256
  : (target, bytes) => target.set(hash('sha256', bytes, 'buffer'))

/** HMAC-SHA-256. Spends most of its time creating an object: for many HMACs over a few bytes, see mls/hash.ts. */
export function hmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  return createHmac('sha256', key).update(bytes).digest()
}

/** HKDF-SHA-256. */
export function hkdfSha256(
  key: Uint8Array | SecretKey,
  salt: Uint8Array,
  info: string | Uint8Array,
  length: number,
): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, salt, info, length))
}

// ---- AEADs (RFC 5116) ----

/** A symmetric key outside JavaScript's memory. */
export type SecretKey = KeyObject

/** Copies the bytes: wipe them. */
export function secretKey(bytes: Uint8Array): SecretKey {
  return createSecretKey(bytes)
}

export type Cipher = 'aes-128-gcm' | 'aes-256-gcm' | 'chacha20-poly1305'

const TAG_BYTES = 16

/** Encrypts the parts one after the other into `target` and appends the tag. */
export function encryptInto(
  target: Uint8Array,
  at: number,
  { cipher, key, nonce, data }: Sealing,
  ...parts: readonly Uint8Array[]
): void {
  const encryption = createCipheriv(asGcm(cipher), key, nonce, { authTagLength: TAG_BYTES })
  if (data.length > 0) encryption.setAAD(data)
  let end = at
  for (const part of parts) {
    target.set(encryption.update(part), end)
    end += part.length
  }
  encryption.final()
  target.set(encryption.getAuthTag(), end)
}

/** The parameters with which a ciphertext is sealed. */
export interface Sealing {
  readonly cipher: Cipher
  readonly key: Uint8Array | SecretKey
  /** 12 bytes. */
  readonly nonce: Uint8Array
  /** Authenticated together with the ciphertext. */
  readonly data: Uint8Array
}

/**
 * Decrypts the output of `encryptInto`.
 *
 * @throws {Error} if it is shorter than a tag, or the tag does not match
 */
export function decrypt({ cipher, key, nonce, data }: Sealing, sealed: Uint8Array): Uint8Array {
  const length = sealed.length - TAG_BYTES
  if (length < 0) throw new Error(`A ciphertext must be at least ${TAG_BYTES} bytes, not ${sealed.length}.`)
  const decryption = createDecipheriv(asGcm(cipher), key, nonce, { authTagLength: TAG_BYTES })
  decryption.setAuthTag(sealed.subarray(length))
  if (data.length > 0) decryption.setAAD(data)
  const plaintext = decryption.update(sealed.subarray(0, length))
  try {
    decryption.final()
  } catch (error) {
    plaintext.fill(0)
    throw error
  }
  // The same memory, but not a Buffer, whose `slice` and `toString` differ: the application gets this array.
  return new Uint8Array(plaintext.buffer, plaintext.byteOffset, plaintext.byteLength)
}

/** The types differ per AEAD, but all accept the same calls. */
function asGcm(cipher: Cipher): 'aes-128-gcm' {
  return cipher as 'aes-128-gcm'
}

// ---- The parts of files: in other threads, because a megabyte takes milliseconds ----

/** A key of AES-256-GCM for whole parts of files. */
export type BulkKey = webcrypto.CryptoKey

const { subtle } = webcrypto
const GCM = 'AES-GCM'

/** Copies the bytes: wipe them. */
export async function bulkKey(bytes: Uint8Array<ArrayBuffer>): Promise<BulkKey> {
  return await subtle.importKey('raw', bytes, GCM, false, ['encrypt', 'decrypt'])
}

/** Encrypts with AES-256-GCM; the tag is at the end. The nonce has 12 bytes. */
export async function encryptBulk(
  key: BulkKey,
  nonce: Uint8Array<ArrayBuffer>,
  data: Uint8Array<ArrayBuffer>,
  plaintext: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await subtle.encrypt({ name: GCM, iv: nonce, additionalData: data }, key, plaintext))
}

/**
 * Decrypts the output of `encryptBulk`.
 *
 * @throws {Error} if the tag does not match
 */
export async function decryptBulk(
  key: BulkKey,
  nonce: Uint8Array<ArrayBuffer>,
  data: Uint8Array<ArrayBuffer>,
  sealed: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await subtle.decrypt({ name: GCM, iv: nonce, additionalData: data }, key, sealed))
}

/** SHA-256, of as many bytes as you like. */
export async function sha256Bulk(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await subtle.digest('SHA-256', bytes))
}

// ---- X25519 (RFC 7748) ----

/** A private or a public key of X25519. */
export type AgreementKey = KeyObject

/** The PKCS #8 prefix of a 32-byte private key (RFC 8410). */
const X25519_DER = Buffer.from('302e020100300506032b656e04220420', 'hex')
const ED25519_DER = Buffer.from('302e020100300506032b657004220420', 'hex')

/** Imports the 32 bytes of a private key. */
export function privateAgreementKey(raw: Uint8Array): AgreementKey {
  return privateFromRaw(X25519_DER, raw)
}

/** Imports the 32 bytes of a public key: as JWK, which older versions of Node parse ten times as fast as DER. */
export function publicAgreementKey(raw: Uint8Array): AgreementKey {
  return createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x: base64url(raw) }, format: 'jwk' })
}

/** The bytes of the public key of a private one. */
export function agreementPublicBytes(key: AgreementKey): Uint8Array {
  return rawPublic(createPublicKey(key))
}

/** A new key pair: its private key, and the bytes of its public one. */
export function generateAgreementKey(): { readonly privateKey: AgreementKey; readonly publicBytes: Uint8Array } {
  const { privateKey, publicKey } = generateKeyPairSync('x25519')
  return { privateKey, publicBytes: rawPublic(publicKey) }
}

/**
 * The point that two keys agree on. Wipe it.
 *
 * @throws {Error} for a point of small order: the result would be zero
 */
export function agree(own: AgreementKey, peer: AgreementKey): Uint8Array {
  return diffieHellman({ privateKey: own, publicKey: peer })
}

/** The Ed25519 key pair of a seed. */
export function signatureKeyPairOf(seed: Uint8Array): SignatureKeyPair {
  return { seed, publicKey: rawPublic(createPublicKey(privateFromRaw(ED25519_DER, seed))) }
}

/** Imports a private key as DER, because a JWK would also need the public key. */
function privateFromRaw(prefix: Buffer, raw: Uint8Array): KeyObject {
  const der = Buffer.concat([prefix, raw])
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  der.fill(0)
  return key
}

function rawPublic(key: KeyObject): Uint8Array {
  const { x } = key.export({ format: 'jwk' })
  return new Uint8Array(Buffer.from(x ?? '', 'base64url'))
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}

// ---- Certificates (X.509) ----

/**
 * The bytes of a certificate in PEM.
 *
 * @throws {Error} if it is none
 */
export function certificateBytes(pem: string): Uint8Array {
  return new X509Certificate(pem).raw
}

/**
 * A certificate as PEM.
 *
 * @throws {Error} if the bytes are not exactly one certificate
 */
export function certificatePem(bytes: Uint8Array): string {
  const certificate = new X509Certificate(bytes)
  if (!certificate.raw.equals(bytes)) throw new RangeError('Bytes follow the certificate.')
  return certificate.toString()
}
