/**
 * Secrets from the environment: in a variable, or in the file that `…_FILE` names. Files are better where a platform
 * supports them (systemd credentials, Kubernetes and Docker secrets): child processes and crash reports do not inherit
 * them.
 */
import { readFileSync } from 'node:fs'
import { StaticError } from '@static/protocol'

const MAX_BYTES = 65_536

/** The secret in `variable`, or in the file that `<variable>_FILE` names, without the line ending. */
export function secretOf(variable: string): string | undefined {
  const value = process.env[variable] || undefined
  const path = process.env[`${variable}_FILE`] || undefined
  if (path === undefined) return value
  if (value !== undefined) {
    throw StaticError.of('invalid_request', `${variable} and ${variable}_FILE are both set. Remove one of them.`)
  }
  const text = read(path, variable).trim()
  if (text !== '' && text.length <= MAX_BYTES) return text
  const problem = text === '' ? 'is empty' : `has more than ${MAX_BYTES} characters`
  throw StaticError.of(
    'invalid_request',
    `${path}, which ${variable}_FILE names, ${problem}. Write the secret into it.`,
  )
}

function read(path: string, variable: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const message = `${path}, which ${variable}_FILE names, cannot be read (${code}). Check that it exists and that this user may read it.`
    throw StaticError.of('invalid_request', message, { cause })
  }
}
