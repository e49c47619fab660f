/** SIGINT (Ctrl-C) and SIGTERM. */
import { Interrupted } from './exit-codes.ts'

/** Waits for the work, and throws `Interrupted` on SIGINT or SIGTERM, so that everything gets closed in order. */
export async function untilInterrupted<Result>(work: Promise<Result>): Promise<Result> {
  const stopped = Promise.withResolvers<never>()
  const interrupt = (): void => {
    // The terminal shows ^C: start the next output on a new line.
    if (process.stderr.isTTY) process.stderr.write('\n')
    stopped.reject(new Interrupted(130))
  }
  const terminate = (): void => stopped.reject(new Interrupted(143))
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', terminate)
  try {
    return await Promise.race([work, stopped.promise])
  } finally {
    // With the handlers removed, a second signal kills a process that takes too long to close.
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', terminate)
  }
}
