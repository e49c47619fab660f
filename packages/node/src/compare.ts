/** Compares secrets in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto'

/** Whether two strings are equal. Hides their lengths as well. */
export function constantTimeEqual(given: string | undefined, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given ?? ''), digest(expected))
}

/**
 * Whether two byte strings are equal, in a time that does not reveal where they differ. Their lengths are not secret.
 */
export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other)
}
