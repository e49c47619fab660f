/** Reads the items of core deterministic CBOR (RFC 8949 §4.2.1) and refuses every other encoding. */
import { WireError } from '../wire/wire-error.ts'

const TWO_TO_32 = 0x1_0000_0000

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A cursor over one message. Every method can throw WireError, after which the reader must not be used. */
export class CborReader {
  readonly #bytes: Uint8Array
  #at = 0
  #itemsLeft: number
  #objectsLeft: number
  // The last head: its major type, and the upper and lower half of an 8-byte value.
  #major = 0
  #high = 0
  #low = 0

  constructor(bytes: Uint8Array, maxItems: number, maxObjects: number) {
    this.#bytes = bytes
    this.#itemsLeft = maxItems
    this.#objectsLeft = maxObjects
  }

  /** Where the next item starts. */
  get offset(): number {
    return this.#at
  }

  /** The number of pairs of the map that follows. */
  map(): number {
    return this.#count(5)
  }

  /** The number of items of the array that follows. */
  array(): number {
    return this.#count(4)
  }

  /** Throws if this many more objects would be too many. Call it before reading them; each takes at least one byte. */
  countObjects(count: number): void {
    if (count > this.#bytes.length - this.#at) throw this.#error('truncated')
    this.#objectsLeft -= count
    if (this.#objectsLeft < 0) throw this.#error('too-many-items')
  }

  /** An integer from `min` to `max`. */
  int(min: number, max: number): number {
    const size = this.#head()
    if (this.#major > 1) throw this.#error('type')
    // Beyond 2^53 the number is not exact, but every such number is out of range here.
    const value = this.#major === 0 ? size : -1 - size
    if (value < min || value > max) throw this.#error('range')
    return value
  }

  /** A 64-bit integer from `min` to `max`. */
  bigint(min: bigint, max: bigint): bigint {
    const size = this.#head()
    if (this.#major > 1) throw this.#error('type')
    const exact = size < TWO_TO_32 ? BigInt(size) : (BigInt(this.#high) << 32n) | BigInt(this.#low)
    const value = this.#major === 0 ? exact : -1n - exact
    if (value < min || value > max) throw this.#error('range')
    return value
  }

  bool(): boolean {
    const value = this.#head()
    if (this.#major !== 7) throw this.#error('type')
    return value === 21
  }

  /** A byte string: a view of the input, not a copy. */
  bytes(): Uint8Array {
    return this.#string(2)
  }

  text(): string {
    const bytes = this.#string(3)
    try {
      return decoder.decode(bytes)
    } catch (cause) {
      throw new WireError('utf8', this.#at - bytes.length, cause)
    }
  }

  /** The input between an earlier offset and this one. */
  since(offset: number): Uint8Array {
    return this.#bytes.subarray(offset, this.#at)
  }

  /** Throws if anything follows. */
  end(): void {
    if (this.#at !== this.#bytes.length) throw this.#error('trailing')
  }

  #count(major: number): number {
    const count = this.#head()
    if (this.#major !== major) throw this.#error('type')
    // May be far larger than the input. Nothing is allocated in advance, so reading simply reaches the end of the
    // input.
    return count
  }

  #string(major: number): Uint8Array {
    const length = this.#head()
    if (this.#major !== major) throw this.#error('type')
    if (length > this.#bytes.length - this.#at) throw this.#error('truncated')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  /** Reads a head, sets the major type and returns the value (exact up to 2^53). */
  #head(): number {
    const first = this.#byte()
    if (--this.#itemsLeft < 0) throw this.#error('too-many-items')
    const major = (this.#major = first >> 5)
    const info = first & 31
    if (major === 6) throw this.#error('tag')
    // Floats, null, undefined, other simple values and a stray "break".
    if (major === 7 && info !== 20 && info !== 21) throw this.#error('simple')
    if (info < 24) return info
    if (info > 27) throw this.#error(info === 31 ? 'indefinite' : 'reserved')
    return this.#long(info)
  }

  #long(info: number): number {
    let value: number
    let least: number
    switch (info) {
      case 24:
        value = this.#byte()
        least = 24
        break
      case 25:
        value = this.#byte() * 0x100 + this.#byte()
        least = 0x100
        break
      case 26:
        value = this.#word()
        least = 0x1_0000
        break
      default:
        this.#high = this.#word()
        this.#low = this.#word()
        value = this.#high * TWO_TO_32 + this.#low
        least = TWO_TO_32
    }
    if (value < least) throw this.#error('not-minimal')
    return value
  }

  #word(): number {
    return this.#byte() * 0x100_0000 + this.#byte() * 0x1_0000 + this.#byte() * 0x100 + this.#byte()
  }

  #byte(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw this.#error('truncated')
    this.#at++
    return byte
  }

  #error(fault: WireError['fault']): WireError {
    return new WireError(fault, this.#at)
  }
}
