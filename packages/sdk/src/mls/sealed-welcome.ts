/**
 * Sealed Welcomes (SPEC.md, 4.5). A recorder that breaks X25519 one day gets into a group only by a Welcome: commits are
 * encrypted under the epoch before them. So the part of a Welcome that is for one agent is encrypted once more, under a
 * secret of ML-KEM-768 for the KeyPackage and, if the agent joins by an invite, a key of that invite. Both are needed
 * to open it.
 *
 *     H = 0001 F57C, version(1) = 1, flags(1), KeyPackageRef(32), [invite id(16)], KEM ciphertext(1088), length(2)
 *     sealed Welcome = H, own part under AES-256-GCM with H as additional data, group_info
 *
 * Flag 1: an invite id follows. `group_info`, the encrypted GroupInfo, is the same for all that one commit adds.
 *
 * This does not protect against former members, nor after a member's state was stolen, and it does not authenticate the
 * sender: that is what the GroupInfo's signature and the invite's MAC are for.
 */
import { decrypt, encryptInto, mlKem768 } from '#platform/crypto'
import { HASH_BYTES, INVITE_ID_BYTES, lengthPrefixed } from '@static/protocol'
import { concat } from '../platform/bytes.ts'
import { type Encapsulated, KEM_CIPHERTEXT_BYTES } from '../platform/ml-kem.ts'
import { NONCE_BYTES, TAG_BYTES } from './aead.ts'
import { expand, extract, sha256 } from './hash.ts'

/** MLS 1.0, and a wire format from the private-use range. */
const MAGIC = Uint8Array.of(0, 1, 0xf5, 0x7c)
const VERSION = 1
const BY_INVITE = 1
const REF_BYTES = HASH_BYTES
const LENGTH_BYTES = 2
const MAX_OWN_BYTES = 0xffff
const KEY_BYTES = 32
const CONTEXT = 'static sealed welcome 1'
const NO_SEAL = new Uint8Array(KEY_BYTES)

/** The invite by which an agent joins. */
export interface InviteSeal {
  readonly inviteId: Uint8Array
  /** Kseal, known only to holders of the token and to members that may admit with it. */
  readonly seal: Uint8Array
}

/** The KeyPackage that a Welcome is for. */
export interface Recipient {
  readonly ref: Uint8Array
  /** Its encapsulation key, and what encapsulates a secret to it. */
  readonly sealKey: Uint8Array
  readonly encapsulate: () => Encapsulated
}

/** The keys of a KeyPackage that open the seal of its Welcome. */
export interface SealPair {
  readonly seed: Uint8Array
  /** Its encapsulation key. */
  readonly sealKey: Uint8Array
}

/** The parts of a sealed Welcome. Nothing here is verified. */
export interface SealedWelcome {
  readonly ref: Uint8Array
  /** Undefined if the agent does not join by an invite. */
  readonly inviteId: Uint8Array | undefined
  readonly ciphertext: Uint8Array
  /** H, with everything above. */
  readonly head: Uint8Array
  readonly sealed: Uint8Array
  readonly groupInfo: Uint8Array
}

/** Whether the bytes claim to be a sealed Welcome, of whatever version. */
export function isSealed(bytes: Uint8Array): boolean {
  return MAGIC.every((byte, at) => bytes[at] === byte)
}

/** The parts of a sealed Welcome; undefined if the bytes are none of this version. */
export function parseSealedWelcome(bytes: Uint8Array): SealedWelcome | undefined {
  const [version, flags = 0] = bytes.subarray(MAGIC.length)
  if (!isSealed(bytes) || version !== VERSION || (flags & ~BY_INVITE) !== 0) return undefined
  let at = MAGIC.length + 2
  const take = (length: number): Uint8Array => bytes.subarray(at, (at += length))
  const ref = take(REF_BYTES)
  const inviteId = flags === BY_INVITE ? take(INVITE_ID_BYTES) : undefined
  const ciphertext = take(KEM_CIPHERTEXT_BYTES)
  const [high = 0, low = 0] = take(LENGTH_BYTES)
  const head = bytes.subarray(0, at)
  const sealed = take((high << 8) | low)
  if (at > bytes.length || sealed.length < TAG_BYTES) return undefined
  return { ref, inviteId, ciphertext, head, sealed, groupInfo: bytes.subarray(at) }
}

/**
 * Seals the own part of a Welcome, all of it before `group_info`: each time with another secret, so a Welcome that is
 * made again has another key. Wipe the own part.
 */
export function sealWelcome(
  ownPart: Uint8Array,
  groupInfoHash: Uint8Array,
  { ref, sealKey, encapsulate }: Recipient,
  invite: InviteSeal | undefined,
): Uint8Array {
  const length = ownPart.length + TAG_BYTES
  if (length > MAX_OWN_BYTES) throw new RangeError(`The own part of a Welcome is ${ownPart.length} bytes, too many.`)
  const { ciphertext, secret } = encapsulate()
  const head = concat(
    MAGIC,
    Uint8Array.of(VERSION, invite ? BY_INVITE : 0),
    ref,
    invite?.inviteId ?? new Uint8Array(),
    ciphertext,
    Uint8Array.of(length >>> 8, length & 0xff),
  )
  const welcome = new Uint8Array(head.length + length)
  welcome.set(head)
  const key = sealingKey(secret, invite?.seal, { head, sealKey, groupInfoHash })
  encryptInto(welcome, head.length, sealingOf(key, head), ownPart)
  key.fill(0)
  return welcome
}

/**
 * Opens a sealed Welcome with the seed of its KeyPackage. Returns the Welcome as MLS has it. Wipe it.
 *
 * @throws {Error} if it was changed, or sealed to another key or with another invite
 */
export function openSealedWelcome(
  { head, ciphertext, sealed, groupInfo }: SealedWelcome,
  { seed, sealKey }: SealPair,
  seal: Uint8Array | undefined,
): Uint8Array {
  const secret = mlKem768.decapsulate(seed, ciphertext)
  const key = sealingKey(secret, seal, { head, sealKey, groupInfoHash: sha256(groupInfo) })
  try {
    const ownPart = decrypt(sealingOf(key, head), sealed)
    const welcome = concat(ownPart, groupInfo)
    ownPart.fill(0)
    return welcome
  } finally {
    key.fill(0)
  }
}

/** What the key of a seal depends on besides its secrets. */
interface Transcript {
  readonly head: Uint8Array
  readonly sealKey: Uint8Array
  readonly groupInfoHash: Uint8Array
}

/** The key, then the nonce. Wipes the secret of the KEM. */
function sealingKey(
  secret: Uint8Array,
  seal: Uint8Array = NO_SEAL,
  { head, sealKey, groupInfoHash }: Transcript,
): Uint8Array {
  const prk = extract(seal, secret)
  secret.fill(0)
  const key = expand(prk, lengthPrefixed([CONTEXT, head, sha256(sealKey), groupInfoHash]), KEY_BYTES + NONCE_BYTES)
  prk.fill(0)
  return key
}

function sealingOf(key: Uint8Array, head: Uint8Array): Parameters<typeof encryptInto>[2] {
  return { cipher: 'aes-256-gcm', key: key.subarray(0, KEY_BYTES), nonce: key.subarray(KEY_BYTES), data: head }
}
