/** Exit codes that scripts can rely on. */
import { ERRORS, StaticError } from '@static/protocol'

/** The exit codes, as described on the help page. */
export const EXIT_CODES = {
  0: 'done',
  1: 'failed',
  2: 'usage error',
  3: 'not signed in, or not allowed',
  4: 'the API, the relay or the peer did not respond; retry later',
  10: 'denied (request-approval)',
  11: 'the time for an approval is over (request-approval)',
  130: 'interrupted (Ctrl-C)',
  143: 'terminated',
} as const

export type ExitCode = keyof typeof EXIT_CODES

/** The user interrupted the command; exits without an error message. */
export class Interrupted extends Error {
  readonly exitCode: ExitCode

  constructor(exitCode: ExitCode = 130) {
    super('Interrupted.')
    this.exitCode = exitCode
  }
}

/** Maps an error to an exit code. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof Interrupted) return error.exitCode
  if (!(error instanceof StaticError)) return 1
  const { family, retryable } = ERRORS[error.code]
  if (family === 'AuthError') return 3
  return family === 'TransportError' && retryable ? 4 : 1
}
