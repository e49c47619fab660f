/**
 * The box of a join request that may carry a proof (SPEC.md, 6.3). Other holders of the token have its keys, and so may
 * a former member that was given one. So the box is encrypted to a key of the owner, by HPKE, and once more under a
 * secret of ML-KEM-768 and Kbox: all three are needed to open it. The relay hands the key out, and the token has its
 * hash.
 *
 *     box key = version(1) = 1, X25519 key(32), encapsulation key(1184)
 *     box = version(1) = 1, KEM ciphertext(1088), then under AES-256-GCM, with all before it as additional data:
 *           HPKE's encapsulated key(32) and ciphertext
 */
import {
  agreementPublicBytes,
  decrypt,
  encryptInto,
  mlKem768,
  privateAgreementKey,
  sameBytes,
  sha256,
} from '#platform/crypto'
import { lengthPrefixed } from '@static/protocol'
import type { AdmitKeys } from '../admitting/keys.ts'
import { NONCE_BYTES, TAG_BYTES } from '../mls/aead.ts'
import type { MlsEngine } from '../mls/index.ts'
import { expand, extract } from '../mls/hash.ts'
import { concat } from '../platform/bytes.ts'
import { KEM_CIPHERTEXT_BYTES, KEM_PUBLIC_BYTES, KEM_SEED_BYTES } from '../platform/ml-kem.ts'

const VERSION = 1
const CONTEXT = 'static proof box 1'
const POINT_BYTES = 32
const KEY_BYTES = 32
const HEAD_BYTES = 1 + KEM_CIPHERTEXT_BYTES
/** The length of the secret from which both keys follow: the private key of X25519, then the seed of ML-KEM. */
export const BOX_SECRET_BYTES: number = POINT_BYTES + KEM_SEED_BYTES
const BOX_KEY_BYTES = 1 + POINT_BYTES + KEM_PUBLIC_BYTES

type Hpke = Pick<MlsEngine, 'hpkeSeal' | 'hpkeOpen'>

/** What a box belongs to: an invite, and the agent that asks with it. */
export interface BoxPlace {
  readonly keys: Pick<AdmitKeys, 'box' | 'inviteId'>
  /** The joiner. */
  readonly agentId: Uint8Array
}

/** The public key of a secret, as the owner registers it. */
export function boxKeyOf(secret: Uint8Array): Uint8Array {
  const point = agreementPublicBytes(privateAgreementKey(secret.subarray(0, POINT_BYTES)))
  return concat(Uint8Array.of(VERSION), point, mlKem768.publicKeyOf(secret.subarray(POINT_BYTES)))
}

/** Whether the bytes are the key whose hash is in a token. */
export function isBoxKey(boxKey: Uint8Array, hash: Uint8Array): boolean {
  return boxKey.length === BOX_KEY_BYTES && boxKey[0] === VERSION && sameBytes(sha256(boxKey), hash)
}

/** Encrypts the content of a request to a key that `isBoxKey` has accepted. */
export async function sealProofBox(
  engine: Hpke,
  place: BoxPlace,
  boxKey: Uint8Array,
  plaintext: Uint8Array,
): Promise<Uint8Array> {
  const point = boxKey.subarray(1, 1 + POINT_BYTES)
  const { ciphertext, secret } = mlKem768.encapsulator(boxKey.subarray(1 + POINT_BYTES))()
  const info = infoOf(place, boxKey, ciphertext)
  const inner = await engine.hpkeSeal(point, info, plaintext)
  const box = new Uint8Array(HEAD_BYTES + inner.length + TAG_BYTES)
  box[0] = VERSION
  box.set(ciphertext, 1)
  const key = outerKey(secret, place, info)
  encryptInto(box, HEAD_BYTES, outerSealing(key, box.subarray(0, HEAD_BYTES)), inner)
  key.fill(0)
  return box
}

/** Opens a box; undefined if it was not made for this secret by a holder of the token, for this joiner. */
export async function openProofBox(
  engine: Hpke,
  place: BoxPlace,
  secret: Uint8Array,
  box: Uint8Array,
): Promise<Uint8Array | undefined> {
  if (box[0] !== VERSION || box.length <= HEAD_BYTES + TAG_BYTES + POINT_BYTES) return undefined
  const ciphertext = box.subarray(1, HEAD_BYTES)
  const shared = mlKem768.decapsulate(secret.subarray(POINT_BYTES), ciphertext)
  const info = infoOf(place, boxKeyOf(secret), ciphertext)
  const key = outerKey(shared, place, info)
  try {
    const inner = decrypt(outerSealing(key, box.subarray(0, HEAD_BYTES)), box.subarray(HEAD_BYTES))
    return await engine.hpkeOpen(Uint8Array.from(secret.subarray(0, POINT_BYTES)), info, inner)
  } catch {
    return undefined
  } finally {
    key.fill(0)
  }
}

/** What both layers depend on. */
function infoOf({ keys, agentId }: BoxPlace, boxKey: Uint8Array, ciphertext: Uint8Array): Uint8Array {
  return lengthPrefixed([CONTEXT, keys.inviteId, agentId, sha256(boxKey), ciphertext])
}

/** The key and the nonce of the outer layer. Wipes the secret of the KEM. */
function outerKey(secret: Uint8Array, { keys }: BoxPlace, info: Uint8Array): Uint8Array {
  const prk = extract(keys.box, secret)
  secret.fill(0)
  const key = expand(prk, info, KEY_BYTES + NONCE_BYTES)
  prk.fill(0)
  return key
}

function outerSealing(key: Uint8Array, head: Uint8Array): Parameters<typeof encryptInto>[2] {
  return { cipher: 'aes-256-gcm', key: key.subarray(0, KEY_BYTES), nonce: key.subarray(KEY_BYTES), data: head }
}
