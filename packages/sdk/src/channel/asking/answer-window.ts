/**
 * The window of answers (SPEC.md, "Requests"): how much a member sends to one request before the asker has read it.
 * Both ends apply this rule. The asker never counts more as unread than the member counts as unconfirmed, whichever of
 * them restarted, so it refuses nothing from an honest member. It holds at most one window more than it counts, plus
 * the answer being read and the answers it held at its restart.
 */

/** An answer is sent if it fits, or if less than half a window is unread. */
export const WINDOW_BYTES: number = 256 * 1024
/** The asker confirms its progress each time it has read this much. */
export const CONFIRMED_BYTES: number = WINDOW_BYTES / 2

/** The size of an answer in the window. The overhead bounds streams of empty answers. */
export function sizeOfAnswer(payload: Uint8Array): number {
  return payload.length + 1024
}

/**
 * Whether an answer of this size has to wait behind this many bytes. It never waits behind less than the asker
 * confirms, or it would wait forever.
 */
export function isWindowFull(bytes: number, size: number): boolean {
  return bytes >= CONFIRMED_BYTES && bytes + size > WINDOW_BYTES
}
