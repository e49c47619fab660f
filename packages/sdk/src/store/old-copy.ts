/** The error for a database or a ring that is an old copy. */
import { StaticError } from '@static/protocol'

/** For files from different times. Using them would use keys twice. */
export function oldCopyError(problem: string): StaticError {
  return new StaticError(
    'store_rolled_back',
    `${problem} Put the current files back. If there are none, use a new data directory and join the channels again.`,
  )
}
