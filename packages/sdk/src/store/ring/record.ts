/**
 * A record of the ring (file.ts): the changes of one turn, sealed with AES-256-GCM.
 *
 *     life 16 | number 8 | length 4 | before 16 | sealed: kind 1, changes | tag 16 | zeros up to a multiple of 64
 *
 * The first four are authenticated. `before` is the tag of the record before it, also of another life (zeros for the
 * first of all), so records of two copies of a ring cannot be mixed. Records are numbered one after the other over all lives of the agent. A life is
 * one opening of the ring: its random bytes and the database's key give its key, the number is the nonce. So a number
 * that is used again after a crash, because its record was torn, is sealed with another key.
 *
 * It does not detect that all records from some point on are missing: see replay.ts.
 */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'

/** What a record says about its turn. */
export type RecordKind =
  /** Its changes follow. */
  | 'changes'
  /** Its changes were too many: they are in the database, if it was written to after this record. */
  | 'direct'

/** A record that was read. */
export interface RingRecord {
  readonly number: number
  /** Where it begins. */
  readonly place: number
  readonly size: number
  readonly kind: RecordKind
  readonly changes: Buffer
  /** Tag of the record before it. */
  readonly before: Buffer
  readonly tag: Buffer
}

/** Records begin at multiples of it. */
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

/** What the first record of a ring has in place of the tag before it. */
export const NO_TAG: Uint8Array = new Uint8Array(TAG_BYTES)

/** The secret that the keys of all lives derive from. */
export function ringSecret(databaseKey: Uint8Array): KeyObject {
  return derive(createSecretKey(databaseKey), new Uint8Array(0), 'static agent ring')
}

/** The size of the record with so many bytes of changes. */
export function recordSize(changes: number): number {
  return Math.ceil((HEADER_BYTES + 1 + changes + TAG_BYTES) / ALIGNMENT) * ALIGNMENT
}

/** The records of one life. */
export class RecordSealer {
  readonly #life = randomBytes(LIFE_BYTES)
  readonly #key: KeyObject

  constructor(secret: KeyObject) {
    this.#key = lifeKey(secret, this.#life)
  }

  /**
   * Writes the record after the one with the tag `before` to the beginning of `target`, and returns its tag. Every
   * number may be used once.
   */
  seal(target: Buffer, number: number, before: Uint8Array, kind: RecordKind, changes: Uint8Array): Buffer {
    const size = recordSize(changes.length)
    this.#life.copy(target)
    target.writeBigUInt64LE(BigInt(number), NUMBER_AT)
    target.writeUInt32LE(1 + changes.length, LENGTH_AT)
    target.set(before, BEFORE_AT)
    const cipher = createCipheriv(CIPHER, this.#key, nonceOf(number))
    cipher.setAAD(target.subarray(0, HEADER_BYTES))
    let at = HEADER_BYTES
    for (const part of [Buffer.of(KINDS.indexOf(kind)), changes]) at += cipher.update(part).copy(target, at)
    cipher.final()
    const tag = cipher.getAuthTag()
    tag.copy(target, at)
    target.fill(0, at + TAG_BYTES, size)
    return tag
  }
}

/** Opens records of all lives. */
export class RecordOpener {
  readonly #secret: KeyObject
  readonly #keys = new Map<string, KeyObject>()

  constructor(secret: KeyObject) {
    this.#secret = secret
  }

  /** The number that the bytes at a place claim; undefined if no record fits there. */
  numberAt(ring: Buffer, place: number): number | undefined {
    if (place + HEADER_BYTES > ring.length) return undefined
    const length = ring.readUInt32LE(place + LENGTH_AT)
    if (length < 1 || place + HEADER_BYTES + length + TAG_BYTES > ring.length) return undefined
    return Number(ring.readBigUInt64LE(place + NUMBER_AT))
  }

  /** The record with this number at a place; undefined if it is not there or not authentic. */
  open(ring: Buffer, place: number, number: number): RingRecord | undefined {
    if (this.numberAt(ring, place) !== number) return undefined
    const header = ring.subarray(place, place + HEADER_BYTES)
    const length = header.readUInt32LE(LENGTH_AT)
    const start = place + HEADER_BYTES
    const tag = Buffer.from(ring.subarray(start + length, start + length + TAG_BYTES))
    const decipher = createDecipheriv(CIPHER, this.#keyOf(header.subarray(0, LIFE_BYTES)), nonceOf(number))
    decipher.setAAD(header)
    decipher.setAuthTag(tag)
    const content = decipher.update(ring.subarray(start, start + length))
    try {
      decipher.final()
    } catch {
      content.fill(0)
      return undefined
    }
    const kind = KINDS[content[0] ?? 0] ?? 'changes'
    const before = Buffer.from(header.subarray(BEFORE_AT))
    return { number, place, size: recordSize(length - 1), kind, changes: content.subarray(1), before, tag }
  }

  #keyOf(life: Buffer): KeyObject {
    const name = life.toString('hex')
    const key = this.#keys.get(name) ?? lifeKey(this.#secret, life)
    this.#keys.set(name, key)
    return key
  }
}

function lifeKey(secret: KeyObject, life: Uint8Array): KeyObject {
  return derive(secret, life, 'static agent ring life')
}

function derive(key: KeyObject, salt: Uint8Array, purpose: string): KeyObject {
  const derived = new Uint8Array(hkdfSync('sha256', key, salt, purpose, KEY_BYTES))
  const derivedKey = createSecretKey(derived)
  derived.fill(0)
  return derivedKey
}

function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES)
  nonce.writeBigUInt64LE(BigInt(number))
  return nonce
}
