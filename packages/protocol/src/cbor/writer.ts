/** Writes the items of core deterministic CBOR (RFC 8949 §4.2.1): shortest heads, definite lengths. */
import { WireError } from '../wire/wire-error.ts'

const TWO_TO_32 = 0x1_0000_0000
const MAX_UINT64 = 0xffff_ffff_ffff_ffffn
/** A larger buffer is not kept for the next message. */
const KEPT_BYTES = 65_536

const encoder = new TextEncoder()

/** A growing buffer that is reused for one message after another. */
export class CborWriter {
  #bytes = new Uint8Array(4096)
  #at = 0

  /** Empties the writer. A message that failed halfway may have left bytes. */
  start(): void {
    this.#at = 0
  }

  /** The bytes written since `start`, as a copy. */
  finish(): Uint8Array<ArrayBuffer> {
    const bytes = this.#bytes.slice(0, this.#at)
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = new Uint8Array(KEPT_BYTES)
    return bytes
  }

  /** The head of an item of a major type; `value` is a whole number up to 2^53. */
  head(major: number, value: number): void {
    this.#room(9)
    const bytes = this.#bytes
    const type = major << 5
    let at = this.#at
    if (value < 24) {
      bytes[at++] = type | value
    } else if (value < 0x100) {
      bytes[at++] = type | 24
      bytes[at++] = value
    } else if (value < 0x1_0000) {
      bytes[at++] = type | 25
      bytes[at++] = value >>> 8
      bytes[at++] = value
    } else if (value < TWO_TO_32) {
      bytes[at++] = type | 26
      at = put32(bytes, at, value)
    } else {
      bytes[at++] = type | 27
      at = put32(bytes, at, Math.floor(value / TWO_TO_32))
      at = put32(bytes, at, value % TWO_TO_32)
    }
    this.#at = at
  }

  /** An integer from `min` to `max`. */
  int(value: number, min: number, max: number): void {
    if (!Number.isInteger(value) || value < min || value > max) throw new WireError('range')
    if (value < 0) this.head(1, -1 - value)
    else this.head(0, value)
  }

  /** A 64-bit integer from `min` to `max`. */
  bigint(value: bigint, min: bigint, max: bigint): void {
    if (value < min || value > max) throw new WireError('range')
    const [major, size] = value < 0n ? [1, -1n - value] : [0, value]
    if (size <= Number.MAX_SAFE_INTEGER) {
      this.head(major, Number(size))
      return
    }
    this.#room(9)
    this.#bytes[this.#at++] = (major << 5) | 27
    this.#at = put32(this.#bytes, this.#at, Number(size >> 32n))
    this.#at = put32(this.#bytes, this.#at, Number(size & (MAX_UINT64 >> 32n)))
  }

  bool(value: boolean): void {
    this.head(7, value ? 21 : 20)
  }

  bytes(value: Uint8Array): void {
    this.head(2, value.length)
    this.#room(value.length)
    this.#bytes.set(value, this.#at)
    this.#at += value.length
  }

  text(value: string): void {
    // The encoder would silently replace half a surrogate pair with another character.
    if (!value.isWellFormed()) throw new WireError('utf8')
    this.utf8(encoder.encode(value))
  }

  /** A text string that is already UTF-8. */
  utf8(value: Uint8Array): void {
    this.head(3, value.length)
    this.#room(value.length)
    this.#bytes.set(value, this.#at)
    this.#at += value.length
  }

  #room(more: number): void {
    const needed = this.#at + more
    if (needed <= this.#bytes.length) return
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, needed))
    larger.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = larger
  }
}

function put32(bytes: Uint8Array, at: number, value: number): number {
  bytes[at] = value >>> 24
  bytes[at + 1] = value >>> 16
  bytes[at + 2] = value >>> 8
  bytes[at + 3] = value
  return at + 4
}
