/** Ctrl-C, and what ends a process politely. */
import { Interrupted } from './exit-codes.ts'

/** Waits for the work until the process is asked to end; then it throws, so that everything is closed in order. */
export async function untilInterrupted<Result>(work: Promise<Result>): Promise<Result> {
  const stopped = Promise.withResolvers<never>()
  const interrupt = (): void => {
    // The terminal has shown ^C: what comes next begins on a line of its own.
    if (process.stderr.isTTY) process.stderr.write('\n')
    stopped.reject(new Interrupted(130))
  }
  const terminate = (): void => stopped.reject(new Interrupted(143))
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', terminate)
  try {
    return await Promise.race([work, stopped.promise])
  } finally {
    // The second signal ends a process whose closing takes too long.
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', terminate)
  }
}
