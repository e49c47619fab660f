/**
 * Values passed between threads. All bytes are in one buffer, which is transferred instead of copied; a structured
 * clone would copy each array's whole backing buffer, however small the view on it.
 */

/** The posted message; transfer `bytes`. */
export interface Parcel {
  readonly items: readonly unknown[]
  readonly bytes: ArrayBuffer
}

/** Stands for bytes in an item. */
interface Span {
  readonly $at: number
  readonly $length: number
}

/** Builds a parcel. */
export class Packer {
  readonly #items: unknown[] = []
  readonly #parts: Uint8Array[] = []
  #size = 0

  /** Adds an item as is. It must contain bytes only as offsets returned by `bytes`. */
  add(item: unknown): void {
    this.#items.push(item)
  }

  /** Adds bytes and returns their offset. */
  bytes(part: Uint8Array): number {
    const at = this.#size
    this.#parts.push(part)
    this.#size += part.length
    return at
  }

  /** A copy of any value, with spans in place of bytes. */
  spans(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (value instanceof Uint8Array) return { $at: this.bytes(value), $length: value.length } satisfies Span
    if (Array.isArray(value)) return value.map((item) => this.spans(item))
    return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, this.spans(field)]))
  }

  finish(): Parcel {
    const bytes = new Uint8Array(this.#size)
    let at = 0
    for (const part of this.#parts) {
      bytes.set(part, at)
      at += part.length
    }
    return { items: this.#items, bytes: bytes.buffer }
  }
}

/** Restores a value of `Packer.spans`; its bytes are views of the parcel's buffer. */
export function unpackSpans(parcel: Parcel, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item) => unpackSpans(parcel, item))
  if ('$at' in value) {
    const { $at, $length } = value as Span
    return new Uint8Array(parcel.bytes, $at, $length)
  }
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, unpackSpans(parcel, field)]))
}
