/**
 * A record of the ring (file.ts): the changes of one turn, sealed with AES-256-GCM.
 *
 *     life 16 | number 8 | length 4 | before 16 | sealed: kind 1, changes | tag 16 | zeros up to a multiple of 64
 *
 * The first four are authenticated. `before` is the tag of the previous record, even across lives (zeros for the very
 * first), so records of two copies of a ring cannot be mixed. Records are numbered consecutively over all lives of the
 * agent. A life is one opening of the ring: its key is derived from its random bytes and the database's key, and the
 * number is the nonce. So a number that is reused after a crash, because its record was torn, is sealed with another
 * key.
 *
 * It does not detect that all records from some point on are missing: see replay.ts.
 */
import { decrypt, encryptInto, hkdfSha256, randomBytes, type SecretKey, secretKey } from '#platform/crypto'
import { toHex } from '@static/protocol'
import { viewOf } from '../../platform/bytes.ts'

/** The meaning of a record for its turn. */
export type RecordKind =
  /** Its changes follow. */
  | 'changes'
  /** There were too many changes: they are in the database if it was written after this record. */
  | 'direct'

/** A record that was read. */
export interface RingRecord {
  readonly number: number
  /** The offset at which it begins. */
  readonly place: number
  readonly size: number
  readonly kind: RecordKind
  readonly changes: Uint8Array
  /** Tag of the previous record. */
  readonly before: Uint8Array
  readonly tag: Uint8Array
}

/** Records begin at multiples of this. */
export const ALIGNMENT = 64
const LIFE_BYTES = 16
const NUMBER_AT = LIFE_BYTES
const LENGTH_AT = NUMBER_AT + 8
const BEFORE_AT = LENGTH_AT + 4
const TAG_BYTES = 16
const HEADER_BYTES = BEFORE_AT + TAG_BYTES
const NONCE_BYTES = 12
const KEY_BYTES = 32
const CIPHER = 'aes-256-gcm'
const KINDS: readonly RecordKind[] = ['changes', 'direct']

/** Replaces the previous tag in the first record of a ring. */
export const NO_TAG: Uint8Array = new Uint8Array(TAG_BYTES)

/** The secret that the keys of all lives derive from. */
export function ringSecret(databaseKey: Uint8Array): SecretKey {
  return derive(secretKey(databaseKey), new Uint8Array(0), 'static agent ring')
}

/** The size of a record with this many bytes of changes. */
export function recordSize(changes: number): number {
  return Math.ceil((HEADER_BYTES + 1 + changes + TAG_BYTES) / ALIGNMENT) * ALIGNMENT
}

/** The records of one life. */
export class RecordSealer {
  readonly #life = randomBytes(LIFE_BYTES)
  readonly #key: SecretKey

  constructor(secret: SecretKey) {
    this.#key = lifeKey(secret, this.#life)
  }

  /**
   * Writes the record that follows the one with the tag `before` to the beginning of `target`, and returns its tag.
   * Each number may be used once.
   */
  seal(target: Uint8Array, number: number, before: Uint8Array, kind: RecordKind, changes: Uint8Array): Uint8Array {
    const size = recordSize(changes.length)
    const view = viewOf(target)
    target.set(this.#life)
    view.setBigUint64(NUMBER_AT, BigInt(number), true)
    view.setUint32(LENGTH_AT, 1 + changes.length, true)
    target.set(before, BEFORE_AT)
    const header = target.subarray(0, HEADER_BYTES)
    const sealing = { cipher: CIPHER, key: this.#key, nonce: nonceOf(number), data: header } as const
    encryptInto(target, HEADER_BYTES, sealing, Uint8Array.of(KINDS.indexOf(kind)), changes)
    const end = HEADER_BYTES + 1 + changes.length + TAG_BYTES
    target.fill(0, end, size)
    return Uint8Array.from(target.subarray(end - TAG_BYTES, end))
  }
}

/** Opens records of all lives. */
export class RecordOpener {
  readonly #secret: SecretKey
  readonly #keys = new Map<string, SecretKey>()

  constructor(secret: SecretKey) {
    this.#secret = secret
  }

  /** The number that the bytes at an offset claim; undefined if no record fits there. */
  numberAt(ring: Uint8Array, place: number): number | undefined {
    if (place + HEADER_BYTES > ring.length) return undefined
    const view = viewOf(ring)
    const length = view.getUint32(place + LENGTH_AT, true)
    if (length < 1 || place + HEADER_BYTES + length + TAG_BYTES > ring.length) return undefined
    return Number(view.getBigUint64(place + NUMBER_AT, true))
  }

  /** The record with this number at an offset; undefined if it is not there or not authentic. */
  open(ring: Uint8Array, place: number, number: number): RingRecord | undefined {
    if (this.numberAt(ring, place) !== number) return undefined
    const header = ring.subarray(place, place + HEADER_BYTES)
    const length = viewOf(header).getUint32(LENGTH_AT, true)
    const start = place + HEADER_BYTES
    const end = start + length + TAG_BYTES
    const key = this.#keyOf(header.subarray(0, LIFE_BYTES))
    let content: Uint8Array
    try {
      content = decrypt({ cipher: CIPHER, key, nonce: nonceOf(number), data: header }, ring.subarray(start, end))
    } catch {
      return undefined
    }
    const tag = Uint8Array.from(ring.subarray(end - TAG_BYTES, end))
    const kind = KINDS[content[0] ?? 0] ?? 'changes'
    const before = Uint8Array.from(header.subarray(BEFORE_AT))
    return { number, place, size: recordSize(length - 1), kind, changes: content.subarray(1), before, tag }
  }

  #keyOf(life: Uint8Array): SecretKey {
    const name = toHex(life)
    const key = this.#keys.get(name) ?? lifeKey(this.#secret, life)
    this.#keys.set(name, key)
    return key
  }
}

function lifeKey(secret: SecretKey, life: Uint8Array): SecretKey {
  return derive(secret, life, 'static agent ring life')
}

function derive(key: SecretKey, salt: Uint8Array, purpose: string): SecretKey {
  const derived = hkdfSha256(key, salt, purpose, KEY_BYTES)
  const derivedKey = secretKey(derived)
  derived.fill(0)
  return derivedKey
}

function nonceOf(number: number): Uint8Array {
  const nonce = new Uint8Array(NONCE_BYTES)
  viewOf(nonce).setBigUint64(0, BigInt(number), true)
  return nonce
}
