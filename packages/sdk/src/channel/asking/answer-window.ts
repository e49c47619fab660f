/**
 * The window of answers (SPEC.md, "Requests"): what a member sends to one request before the asker has read it. Both ends
 * apply this rule, and the asker never counts more as unread than the member counts as unconfirmed, whichever of them was
 * restarted: so it refuses nothing that an honest member sends. It holds at most a window more than it counts, what is
 * being read, and what it held when it was restarted.
 */

/** Answers fit into it, or follow less than half of it. */
export const WINDOW_BYTES: number = 256 * 1024
/** The asker confirms what it has read whenever it has read so much. */
export const CONFIRMED_BYTES: number = WINDOW_BYTES / 2

/** What a window counts for an answer: a stream of empty ones is bounded, too. */
export function sizeOfAnswer(payload: Uint8Array): number {
  return payload.length + 1024
}

/**
 * Whether an answer of this size has to wait behind so many bytes. It never waits behind less than the asker confirms:
 * that would be forever.
 */
export function isWindowFull(bytes: number, size: number): boolean {
  return bytes >= CONFIRMED_BYTES && bytes + size > WINDOW_BYTES
}
