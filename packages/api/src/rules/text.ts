/** Checks on texts that people choose. */
import { StaticError } from '@static/protocol'

/** Controls, and what turns or hides text where people read it; joiners are part of words and pictures. */
const CONTROL = /(?![\u200c\u200d])[\p{Cc}\p{Cs}\p{Cf}\p{Zl}\p{Zp}]/u
const MOST_IN_NAME = 64
const EMAIL = /^[^\s@]+@[^\s@]+$/u

/** A name, trimmed. Throws `invalid_request` if nothing is left or it holds control characters. */
export function cleanName(name: string): string {
  const trimmed = name.trim()
  if (trimmed === '') throw invalidField('name', 'must not be empty')
  if (CONTROL.test(trimmed)) throw invalidField('name', 'must not contain control characters')
  if (Array.from(trimmed).length > MOST_IN_NAME)
    throw invalidField('name', `must have at most ${MOST_IN_NAME} characters`)
  return trimmed
}

/** Whether a text can be an e-mail address. */
export function isEmail(email: string): boolean {
  return EMAIL.test(email) && !CONTROL.test(email)
}

/** An `invalid_request` about one field. */
export function invalidField(field: string, message: string): StaticError {
  return StaticError.of('invalid_request', `The field ${field} ${message}.`, { errors: [{ field, message }] })
}
