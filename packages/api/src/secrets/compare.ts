/** Comparison of secrets. */
import { createHash, timingSafeEqual } from 'node:crypto'

/** Compares in a time that does not depend on the content. */
export function constantTimeEqual(given: string | undefined, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given ?? ''), digest(expected))
}
