/**
 * Keys derived from a token's secret (SPEC.md, 6.2). The relay learns the id and the admission key, with which it can
 * turn away strangers. Neither opens a box, makes a tag, or reveals the secret.
 */
import { decrypt, encryptInto, hkdfSha256, hmacSha256, randomBytes, sha256 } from '#platform/crypto'
import { INVITE_ID_BYTES, joinProofBytes, signedBytes } from '@static/protocol'

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const CIPHER = 'aes-256-gcm'

/**
 * The keys that admit joiners of an invite. A holder can read their requests and tag their Welcomes, but cannot ask to
 * join.
 */
export interface AdmitKeys {
  readonly inviteId: Uint8Array
  /** Kjoin: tags join requests. */
  readonly join: Uint8Array
  /** Kwel: tags Welcomes. */
  readonly welcome: Uint8Array
  /** Kbox: seals join requests. */
  readonly box: Uint8Array
  /** Kseal: seals Welcomes, together with the key of the KeyPackage. */
  readonly seal: Uint8Array
}

export interface InviteKeys extends AdmitKeys {
  /** Kadm: proves to the relay that a joiner has the token. */
  readonly admission: Uint8Array
  /** Kmem: members derive the admitting keys from it. */
  readonly members: Uint8Array
}

/** Derives the keys of an invite (HKDF-SHA-256, RFC 5869, without salt). */
export function inviteKeys(secret: Uint8Array): InviteKeys {
  const members = derive(secret, 'members', KEY_BYTES)
  const inviteId = derive(secret, 'id', INVITE_ID_BYTES)
  return { ...admitKeys(inviteId, members), admission: derive(secret, 'admission', KEY_BYTES), members }
}

/** Derives the admitting keys from Kmem. */
export function admitKeys(inviteId: Uint8Array, members: Uint8Array): AdmitKeys {
  return {
    inviteId,
    join: derive(members, 'join', KEY_BYTES),
    welcome: derive(members, 'welcome', KEY_BYTES),
    box: derive(members, 'box', KEY_BYTES),
    seal: derive(members, 'seal', KEY_BYTES),
  }
}

function derive(key: Uint8Array, label: string, length: number): Uint8Array {
  return hkdfSha256(key, new Uint8Array(), `static invite 1 ${label}`, length)
}

/** Proves to the relay, for one session, that the sender of a box holds the token. */
export function admissionProof(
  { admission, inviteId }: InviteKeys,
  request: { readonly sessionNonce: Uint8Array; readonly agentId: Uint8Array; readonly box: Uint8Array },
): Uint8Array {
  const { sessionNonce, agentId, box } = request
  return mac(admission, joinProofBytes({ sessionNonce, inviteId, agentId, boxHash: sha256(box) }))
}

/** The channel that a join request is for. */
export interface JoinPlace {
  readonly channelId: Uint8Array
  readonly name: string
  /** The owner's agent id. */
  readonly owner: Uint8Array
}

/** The tag of a join request: proves that the sender holds the token and means this KeyPackage and this channel. */
export function joinTag(
  { join, inviteId }: AdmitKeys,
  { channelId, name, owner }: JoinPlace,
  nonce: Uint8Array,
  keyPackage: Uint8Array,
): Uint8Array {
  return mac(join, signedBytes('static join 1', [channelId, name, inviteId, owner, nonce, keyPackage]))
}

/**
 * The tag of a Welcome, over the bytes that are delivered: proves that its sender holds the token and made it for this
 * KeyPackage and epoch.
 */
export function welcomeTag(
  { welcome: key, inviteId }: AdmitKeys,
  keyPackage: Uint8Array,
  welcome: Uint8Array,
  epochAuthenticator: Uint8Array,
): Uint8Array {
  const fields = [inviteId, sha256(keyPackage), welcome, epochAuthenticator]
  return mac(key, signedBytes('static welcome 2', fields))
}

/** Seals data for the holders of the token. */
export function sealBox({ box, inviteId }: AdmitKeys, plaintext: Uint8Array): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES)
  const sealed = new Uint8Array(NONCE_BYTES + plaintext.length + TAG_BYTES)
  sealed.set(nonce)
  encryptInto(sealed, NONCE_BYTES, { cipher: CIPHER, key: box, nonce, data: inviteId }, plaintext)
  return sealed
}

/** Opens a box; undefined if it was not sealed by a holder of the token. */
export function openBox({ box, inviteId }: AdmitKeys, sealed: Uint8Array): Uint8Array | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined
  const nonce = sealed.subarray(0, NONCE_BYTES)
  try {
    return decrypt({ cipher: CIPHER, key: box, nonce, data: inviteId }, sealed.subarray(NONCE_BYTES))
  } catch {
    return undefined
  }
}

function mac(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  return new Uint8Array(hmacSha256(key, bytes))
}
