/** Waiting with a time limit. */

/** The longest timer that Node supports. A longer one would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** The result of a promise, or undefined if it takes longer. */
export async function withinTime<Result>(promise: Promise<Result>, milliseconds: number): Promise<Result | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), Math.min(milliseconds, LONGEST_TIMER_MS))
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
