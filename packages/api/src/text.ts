/** Checks on texts that people choose. */
import { StaticError } from '@static/protocol'

const CONTROL = /[\p{Cc}\p{Cs}]/u
const EMAIL = /^[^\s@]+@[^\s@]+$/u

/** A name, trimmed. Throws `invalid_request` if nothing is left or it holds control characters. */
export function cleanName(name: string): string {
  const trimmed = name.trim()
  if (trimmed === '') throw wrong('name', 'must not be empty')
  if (CONTROL.test(trimmed)) throw wrong('name', 'must not contain control characters')
  return trimmed
}

/** Whether a text can be an e-mail address. */
export function isEmail(email: string): boolean {
  return EMAIL.test(email) && !CONTROL.test(email)
}

/** An `invalid_request` about one field. */
export function wrong(field: string, message: string): StaticError {
  return StaticError.of('invalid_request', `The field ${field} ${message}.`, { errors: [{ field, message }] })
}
