/** Errors on their way to the program. The cause goes along: it is the same user's, on the same machine. */
import { StaticError } from '@static/protocol'
import type { Failure } from './messages.ts'

/** An error as it is told. */
export function failureOf(error: unknown): Failure {
  const { code, message, cause, docUrl } = StaticError.from(error)
  return {
    code,
    message,
    ...(docUrl !== undefined && { docUrl }),
    ...(cause !== undefined && { cause: causeOf(cause) }),
  }
}

function causeOf(cause: unknown): NonNullable<Failure['cause']> {
  if (cause instanceof StaticError) return { code: cause.code, message: cause.message }
  return { message: cause instanceof Error ? cause.message : String(cause) }
}
