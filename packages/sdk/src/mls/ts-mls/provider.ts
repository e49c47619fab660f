/**
 * The cryptography of the MLS library (RFC 9420, section 5; HPKE: RFC 9180), on the synchronous cryptography of the
 * platform. Ephemeral keys are generated. Keys are cached by the identity of the array of key bytes, so copy
 * a caller's bytes before passing them here.
 * JavaScript cannot guarantee that no copy of a secret stays in memory.
 */
import {
  agree,
  type AgreementKey,
  agreementPublicBytes,
  ed25519,
  generateAgreementKey,
  generateSignatureKeyPair,
  privateAgreementKey,
  publicAgreementKey,
  randomBytes,
  sameBytes,
  signatureKeyPairOf,
  type Signer,
  type Verifier,
} from '#platform/crypto'
import type { CiphersuiteImpl } from 'ts-mls'
import { CryptoError } from 'ts-mls/mlsError.js'
import { NONCE_BYTES, seal, type Suite, TAG_BYTES, unseal } from '../aead.ts'
import { concat } from '../../platform/bytes.ts'
import { DIGEST_BYTES, expand, extract, hmac, sha256 } from '../hash.ts'

/** Implements the MLS library's interface for a suite. */
export function makeProvider(suite: Suite): CiphersuiteImpl {
  const signers = new WeakMap<Uint8Array, Signer>()
  const verifiers = new WeakMap<Uint8Array, Verifier>()
  const hpke = makeHpke(suite)
  return {
    name: suite.name,
    rng: { randomBytes },
    hash: {
      digest: async (bytes) => sha256(bytes),
      mac: async (key, bytes) => hmac(key, bytes),
      verifyMac: async (key, mac, bytes) => sameBytes(hmac(key, bytes), mac),
    },
    kdf: {
      size: DIGEST_BYTES,
      extract: async (salt, secret) => extract(salt, secret),
      expand: async (secret, info, length) => expand(secret, info, length),
    },
    signature: {
      sign: guarded(async (seed, bytes) => {
        let signer = signers.get(seed)
        if (signer === undefined) signers.set(seed, (signer = ed25519.signer(signatureKeyPairOf(seed))))
        return signer(bytes)
      }),
      verify: guarded(async (publicKey, bytes, signature) => {
        let verifier = verifiers.get(publicKey)
        if (verifier === undefined) verifiers.set(publicKey, (verifier = ed25519.verifier(publicKey)))
        return verifier(bytes, signature)
      }),
      keygen: async () => {
        const { publicKey, seed } = generateSignatureKeyPair()
        return { publicKey, signKey: seed }
      },
    },
    hpke,
  }
}

/** An X25519 key. The library treats it as opaque and passes it back. */
interface HpkeKey {
  readonly raw: Uint8Array
  readonly object: AgreementKey
  /** The public key; for a public key the same as `raw`. */
  readonly publicRaw: Uint8Array
}

type Hpke = CiphersuiteImpl['hpke']
type LibraryKey<Type extends 'public' | 'private'> = Awaited<
  ReturnType<Hpke[Type extends 'public' ? 'importPublicKey' : 'importPrivateKey']>
>

const text = new TextEncoder()
const EMPTY = new Uint8Array()
const VERSION = text.encode('HPKE-v1')
const KEM_ID = 0x0020
const KDF_ID = 0x0001
const MODE_BASE = new Uint8Array([0])
/** The length of X25519 keys and shared points. */
export const POINT_BYTES = 32

/** HPKE in base mode, single shot: DHKEM(X25519, HKDF-SHA256). */
function makeHpke(suite: Suite): Hpke {
  const kemSuite = concat(text.encode('KEM'), uint16(KEM_ID))
  const hpkeSuite = concat(text.encode('HPKE'), uint16(KEM_ID), uint16(KDF_ID), uint16(suite.hpkeAead))
  const labelledExtract = (id: Uint8Array, salt: Uint8Array, label: string, secret: Uint8Array): Uint8Array =>
    extract(salt, concat(VERSION, id, text.encode(label), secret))
  const labelledExpand = (
    id: Uint8Array,
    secret: Uint8Array,
    label: string,
    info: Uint8Array,
    length: number,
  ): Uint8Array => expand(secret, concat(uint16(length), VERSION, id, text.encode(label), info), length)
  const noPsk = labelledExtract(hpkeSuite, EMPTY, 'psk_id_hash', EMPTY)

  /** Wipes the point that the keys have agreed on. */
  const sharedSecret = (point: Uint8Array, ephemeral: Uint8Array, receiver: Uint8Array): Uint8Array => {
    const secret = labelledExtract(kemSuite, EMPTY, 'eae_prk', point)
    point.fill(0)
    return labelledExpand(kemSuite, secret, 'shared_secret', concat(ephemeral, receiver), DIGEST_BYTES)
  }
  const encapsulate = (receiver: HpkeKey): { shared: Uint8Array; enc: Uint8Array } => {
    const { privateKey, publicBytes: enc } = generateAgreementKey()
    // Throws for a point of small order: the result would be zero.
    return { shared: sharedSecret(agree(privateKey, receiver.object), enc, receiver.raw), enc }
  }
  const decapsulate = (receiver: HpkeKey, enc: Uint8Array): Uint8Array =>
    sharedSecret(agree(receiver.object, importPublic(enc).object), enc, receiver.publicRaw)
  const schedule = (shared: Uint8Array, info: Uint8Array): { key: Uint8Array; exporter: Uint8Array } => {
    const context = concat(MODE_BASE, noPsk, labelledExtract(hpkeSuite, EMPTY, 'info_hash', info))
    const secret = labelledExtract(hpkeSuite, shared, 'secret', EMPTY)
    return {
      key: concat(
        labelledExpand(hpkeSuite, secret, 'key', context, suite.keyBytes),
        labelledExpand(hpkeSuite, secret, 'base_nonce', context, NONCE_BYTES),
      ),
      exporter: labelledExpand(hpkeSuite, secret, 'exp', context, DIGEST_BYTES),
    }
  }
  const sealed = (key: Uint8Array, data: Uint8Array, plaintext: Uint8Array): Uint8Array => {
    const target = new Uint8Array(plaintext.length + TAG_BYTES)
    seal(suite, key, data, plaintext, target, 0)
    return target
  }
  return {
    keyLength: suite.keyBytes,
    nonceLength: NONCE_BYTES,
    seal: guarded(async (publicKey, plaintext, info, data = EMPTY) => {
      const { shared, enc } = encapsulate(ours(publicKey))
      return { enc, ct: sealed(schedule(shared, info).key, data, plaintext) }
    }),
    open: guarded(async (privateKey, enc, ciphertext, info, data = EMPTY) => {
      return unseal(suite, schedule(decapsulate(ours(privateKey), enc), info).key, data, ciphertext)
    }),
    exportSecret: guarded(async (publicKey, context, length, info) => {
      const { shared, enc } = encapsulate(ours(publicKey))
      return { enc, secret: labelledExpand(hpkeSuite, schedule(shared, info).exporter, 'sec', context, length) }
    }),
    importSecret: guarded(async (privateKey, context, enc, length, info) => {
      const { exporter } = schedule(decapsulate(ours(privateKey), enc), info)
      return labelledExpand(hpkeSuite, exporter, 'sec', context, length)
    }),
    importPrivateKey: guarded(async (raw) => theirs<'private'>(importPrivate(raw))),
    importPublicKey: guarded(async (raw) => theirs<'public'>(importPublic(raw))),
    exportPrivateKey: async (key) => ours(key).raw,
    exportPublicKey: async (key) => ours(key).raw,
    encryptAead: guarded(async (key, nonce, data = EMPTY, plaintext) => sealed(concat(key, nonce), data, plaintext)),
    decryptAead: guarded(async (key, nonce, data = EMPTY, ciphertext) =>
      unseal(suite, concat(key, nonce), data, ciphertext),
    ),
    deriveKeyPair: guarded(async (secret) => {
      const prk = labelledExtract(kemSuite, EMPTY, 'dkp_prk', secret)
      return pair(importPrivate(labelledExpand(kemSuite, prk, 'sk', EMPTY, POINT_BYTES)))
    }),
    generateKeyPair: async () => {
      return pair(importPrivate(randomBytes(POINT_BYTES)))
    },
  }
}

const privateKeys = new WeakMap<Uint8Array, HpkeKey>()
const publicKeys = new WeakMap<Uint8Array, HpkeKey>()

function importPrivate(raw: Uint8Array): HpkeKey {
  const known = privateKeys.get(raw)
  if (known !== undefined) return known
  if (raw.length !== POINT_BYTES)
    throw new CryptoError(`An X25519 private key must be ${POINT_BYTES} bytes, not ${raw.length}.`)
  const object = privateAgreementKey(raw)
  const key = { raw, object, publicRaw: agreementPublicBytes(object) }
  privateKeys.set(raw, key)
  return key
}

function importPublic(raw: Uint8Array): HpkeKey {
  const known = publicKeys.get(raw)
  if (known !== undefined) return known
  if (raw.length !== POINT_BYTES)
    throw new CryptoError(`An X25519 public key must be ${POINT_BYTES} bytes, not ${raw.length}.`)
  const key = { raw, object: publicAgreementKey(raw), publicRaw: raw }
  publicKeys.set(raw, key)
  return key
}

function pair(key: HpkeKey): { privateKey: LibraryKey<'private'>; publicKey: LibraryKey<'public'> } {
  return { privateKey: theirs<'private'>(key), publicKey: theirs<'public'>(importPublic(key.publicRaw)) }
}

/** The library declares Web Crypto's type but never looks inside. */
function theirs<Type extends 'public' | 'private'>(key: HpkeKey): LibraryKey<Type> {
  return key as unknown as LibraryKey<Type>
}

function ours(key: LibraryKey<'public'> | LibraryKey<'private'>): HpkeKey {
  return key as unknown as HpkeKey
}

/** Wraps errors in the library's class, which its callers check for. */
function guarded<Arguments extends unknown[], Result>(
  work: (...values: Arguments) => Promise<Result>,
): (...values: Arguments) => Promise<Result> {
  return async (...values) => {
    try {
      return await work(...values)
    } catch (error) {
      if (error instanceof CryptoError) throw error
      const wrapped = new CryptoError(error instanceof Error ? error.message : String(error))
      wrapped.cause = error
      throw wrapped
    }
  }
}

function uint16(value: number): Uint8Array {
  return new Uint8Array([value >>> 8, value & 0xff])
}
