/** When a joiner repeats its hello (SPEC 6.2). */

const HELLO_MS = 2000
const LONGEST_HELLO_MS = 600_000
/** Every member reads every hello, so joiners of a large channel wait longer: together they repeat N² of them. */
const MEMBERS_PER_HELLO = 16

/** How long an agent waits for the owner's greeting after it has said hello `repeats` times before. */
export function helloDelayMs(repeats: number, members: number): number {
  const first = HELLO_MS * Math.max(1, members / MEMBERS_PER_HELLO)
  return Math.min(Math.round(first * 2 ** repeats), LONGEST_HELLO_MS)
}
