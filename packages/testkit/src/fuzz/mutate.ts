/** New inputs from old ones: the usual changes of a fuzzer, all of them chosen by one generator. */
import type { Below } from '../random.ts'

const NUMBERS: readonly (readonly [bytes: number, value: bigint])[] = [
  [1, 0n],
  [1, 0x7fn],
  [1, 0x80n],
  [1, 0xffn],
  [2, 0x7fffn],
  [2, 0xffffn],
  [4, 0x7fff_ffffn],
  [4, 0x8000_0000n],
  [4, 0xffff_ffffn],
  [8, 0x7fff_ffff_ffff_ffffn],
  [8, 0xffff_ffff_ffff_ffffn],
]

/** Makes an input from one or two of the corpus, of at most `most` bytes. */
export function mutate(
  below: Below,
  corpus: readonly Uint8Array[],
  words: readonly Uint8Array[],
  most: number,
): Uint8Array {
  const pick = (): Buffer => Buffer.from(corpus[below(corpus.length)] ?? [])
  let bytes = pick()
  for (let round = 1 + below(6); round > 0; round--) bytes = change(below, bytes, pick, words)
  return Uint8Array.from(bytes.subarray(0, most))
}

function change(below: Below, bytes: Buffer, pick: () => Buffer, words: readonly Uint8Array[]): Buffer {
  const at = below(bytes.length + 1)
  const length = below(Math.min(bytes.length - at, 64) + 1)
  const noise = (): Buffer => Buffer.from(Array.from({ length: 1 + below(8) }, () => below(256)))
  switch (below(10)) {
    case 0:
      if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8))
      return bytes
    case 1:
      if (at < bytes.length) bytes[at] = below(256)
      return bytes
    case 2:
      return put(bytes, at, numberOf(below))
    case 3:
      return Buffer.concat([bytes.subarray(0, at), noise(), bytes.subarray(at)])
    case 4:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)])
    case 5:
      return bytes.subarray(0, at)
    case 6: {
      const other = pick()
      return Buffer.concat([bytes.subarray(0, at), other.subarray(below(other.length + 1))])
    }
    case 7:
      return Buffer.concat([bytes.subarray(0, at + length), bytes.subarray(at)])
    case 8: {
      // Many of the same: lists, depth, repetition.
      const part = bytes.subarray(at, at + Math.max(1, Math.min(length, 16)))
      const times = 1 << below(below(4) === 0 ? 13 : 5)
      return Buffer.concat([bytes.subarray(0, at), ...Array.from({ length: times }, () => part), bytes.subarray(at)])
    }
    default: {
      const word = words[below(words.length)] ?? noise()
      return below(2) === 0 ? put(bytes, at, word) : Buffer.concat([bytes.subarray(0, at), word, bytes.subarray(at)])
    }
  }
}

function numberOf(below: Below): Uint8Array {
  const [size, value] = NUMBERS[below(NUMBERS.length)] ?? [1, 0n]
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(value)
  const number = bytes.subarray(8 - size)
  return below(4) === 0 ? number.toReversed() : number
}

/** Overwrites existing bytes. */
function put(bytes: Buffer, at: number, part: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, at), part, bytes.subarray(at + part.length)])
}
