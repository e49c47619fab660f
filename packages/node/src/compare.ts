/** Comparison of secrets, in a time that does not depend on their content. */
import { createHash, timingSafeEqual } from 'node:crypto'

/** Whether two texts are the same; their lengths do not show either. */
export function constantTimeEqual(given: string | undefined, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given ?? ''), digest(expected))
}

/** Whether two byte strings are the same; their lengths are no secret. */
export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other)
}
