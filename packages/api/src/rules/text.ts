/** Checks of names and e-mail addresses that users choose. */
import { StaticError } from '@static/protocol'

/**
 * Control characters, and characters that reorder or hide text. Joiners are allowed, because words and emoji contain
 * them.
 */
const CONTROL = /(?![\u200c\u200d])[\p{Cc}\p{Cs}\p{Cf}\p{Zl}\p{Zp}]/u
const MOST_IN_NAME = 64
const EMAIL = /^[^\s@]+@[^\s@]+$/u

/** Trims a name. Throws `invalid_request` if it is empty, too long or contains control characters. */
export function cleanName(name: string): string {
  const trimmed = name.trim()
  if (trimmed === '') throw invalidField('name', 'must not be empty')
  if (CONTROL.test(trimmed)) throw invalidField('name', 'must not contain control characters')
  if (Array.from(trimmed).length > MOST_IN_NAME)
    throw invalidField('name', `must have at most ${MOST_IN_NAME} characters`)
  return trimmed
}

/** Whether a string can be an e-mail address. */
export function isEmail(email: string): boolean {
  return EMAIL.test(email) && !CONTROL.test(email)
}

/** An `invalid_request` about one field. */
export function invalidField(field: string, message: string): StaticError {
  return StaticError.of('invalid_request', `The field ${field} ${message}.`, { errors: [{ field, message }] })
}
