/**
 * The credential of relay nodes, in a file shared by the API and the relays: one line, or two while it is being
 * rotated. The API accepts both; a relay uses the first.
 */
import { StaticError } from '@static/protocol'
import { readToken } from './input-files.ts'

const MIN_LENGTH = 32
const MAX_CREDENTIALS = 2
/** The characters allowed in an `Authorization` header. */
const PRINTABLE = /^[\x21-\x7e]+$/

/** The credentials in the content of a file. */
export function credentialsIn(content: string, path: string): string[] {
  const lines = content.split('\n').map((line) => line.trim())
  const credentials = lines.filter((line) => line !== '')
  if (credentials.length < 1 || credentials.length > MAX_CREDENTIALS) {
    throw StaticError.of(
      'invalid_request',
      `${path} has ${credentials.length} lines: it must contain one credential, or two while you rotate it.`,
    )
  }
  if (credentials.some(({ length }) => length < MIN_LENGTH)) {
    throw StaticError.of(
      'invalid_request',
      `${path} is too short: a credential must have at least ${MIN_LENGTH} characters.`,
    )
  }
  if (credentials.some((credential) => !PRINTABLE.test(credential))) {
    throw StaticError.of(
      'invalid_request',
      `${path} contains a credential with a space or a character outside ASCII, which HTTP cannot carry. Make one with \`openssl rand -hex 32\`.`,
    )
  }
  return credentials
}

export async function readCredential(path: string): Promise<string> {
  const [first = ''] = credentialsIn(await readToken(path), path)
  return first
}
