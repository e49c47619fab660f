/** How a command ends: the numbers that scripts can rely on. */
import { ERRORS, StaticError } from '@static/protocol'

/** The numbers, in the words of the help page. */
export const EXIT_CODES = {
  0: 'done',
  1: 'it could not be done',
  2: 'the command was not understood',
  3: 'not signed in, or not allowed',
  4: 'the API, the relay or the other side does not answer now; the same command may work later',
  130: 'interrupted (Ctrl-C)',
  143: 'terminated',
} as const

/** The number of an exit. */
export type ExitCode = keyof typeof EXIT_CODES

/** The person has ended the command: nothing is left to say. */
export class Interrupted extends Error {
  readonly exitCode: ExitCode

  constructor(exitCode: ExitCode = 130) {
    super('Interrupted.')
    this.exitCode = exitCode
  }
}

/** The exit code that an error ends a command with. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof Interrupted) return error.exitCode
  if (!(error instanceof StaticError)) return 1
  const { family, retryable } = ERRORS[error.code]
  if (family === 'AuthError') return 3
  return family === 'TransportError' && retryable ? 4 : 1
}
