/** Sizes of encrypted files and their parts (SPEC.md, "Files"), which tell the relay little of the true size. */

/** The smallest padded file. */
const MIN_FILE_BYTES = 65_536
/** How much of the padded file one part holds; the last one may hold less. */
export const FILE_PART_BYTES = 1_048_576
/** What encryption adds to each part: the nonce and the tag. */
export const FILE_PART_OVERHEAD = 28
/** The largest padded file that any relay takes. */
export const MAX_FILE_BYTES: number = 4 * 2 ** 30

/** The padded size of a file: 1, 1¼, 1½ or 1¾ times a power of two. */
export function paddedFileBytes(bytes: number): number {
  let power = MIN_FILE_BYTES
  while (power * 2 <= bytes) power *= 2
  const step = power / 4
  return Math.max(MIN_FILE_BYTES, Math.ceil(bytes / step) * step)
}

/** How many parts a padded file has. */
export function filePartCount(padded: number): number {
  return Math.ceil(padded / FILE_PART_BYTES)
}

/** The length of a part as it is sent, counted from part 0. */
export function filePartBytes(padded: number, part: number): number {
  return Math.min(FILE_PART_BYTES, padded - part * FILE_PART_BYTES) + FILE_PART_OVERHEAD
}

/** How much all parts of a file take. */
export function storedFileBytes(padded: number): number {
  return padded + filePartCount(padded) * FILE_PART_OVERHEAD
}
