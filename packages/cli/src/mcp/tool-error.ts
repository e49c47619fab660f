/** Errors as a model sees them. Their text may come from a relay or another service, so it is bounded. */
import { ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { printable } from '../terminal/output.ts'

/** An error in the result of a tool. */
export interface ToolError {
  readonly code: ErrorCode
  /** Static's own help for the code, unless the message is the same. */
  readonly help?: string
  readonly message: string
}

/** More than Static's own sentences take, including a path or a list of members. */
const MOST_CHARACTERS = 1000

export function toolError(error: unknown): ToolError {
  const { code, message } = StaticError.from(error)
  const { help } = ERRORS[code]
  // Any other error is a bug or a failed system call: its message is all the information there is.
  const words = error instanceof Error && !(error instanceof StaticError) ? ` (${error.message})` : ''
  return { code, ...(message !== help && { help }), message: errorText(`${message}${words}`) }
}

/** Escapes invisible characters and truncates the text if it is too long. */
export function errorText(text: string): string {
  const line = printable(text.slice(0, MOST_CHARACTERS))
  const isWhole = Math.max(line.length, text.length) <= MOST_CHARACTERS
  return isWhole ? line : `${line.slice(0, MOST_CHARACTERS)}…`
}
