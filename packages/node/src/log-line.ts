/** Log lines of the servers: which fields of an error are logged, and redaction as a second defense for secrets. */
import { redactSecrets, StaticError } from '@static/protocol'

/** The match begins where a word does, so that a long word is scanned once and not from each of its letters. */
const ADDRESS = /(?<![^\s"@<>/])[^\s"@<>/]+@[^\s"@<>]+\.[^\s"@<>]+/g
/** Three or more words joined by dots, such as a JWT. */
const DOTTED = /(?<![\w-])[\w-]+(?:\.[\w-]+){2,}/g
/** How a JWT begins. */
const JWT = 'eyJ'

/** The number of errors logged from one chain of causes. */
const MOST_CAUSES = 16

/**
 * Redacts anything that looks like a key, a token, a link or an e-mail address, in time linear in the line's length.
 */
export function redactLine(line: string): string {
  let shown = redactSecrets(line)
  if (shown.includes(JWT)) {
    shown = shown.replaceAll(DOTTED, (words) => {
      const start = words.indexOf(JWT)
      return start === -1 ? words : `${words.slice(0, start)}[redacted]`
    })
  }
  // Most lines contain none: a substring search is cheaper than the pattern.
  return shown.includes('@') ? shown.replaceAll(ADDRESS, '[redacted]') : shown
}

/** The fields of an error to log. Its other fields are left out, because they may quote a row or a request. */
export function errorFields(error: unknown): Record<string, unknown> {
  return fieldsOf(error, MOST_CAUSES)
}

function fieldsOf(error: unknown, left: number): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: textOf(error) }
  const { code } = error as { code?: unknown }
  return {
    type: error.name,
    message: error.message,
    ...(typeof code === 'string' ? { code } : {}),
    ...(error instanceof StaticError ? {} : { stack: error.stack }),
    ...(error.cause === undefined || left <= 1 ? {} : { cause: fieldsOf(error.cause, left - 1) }),
  }
}

function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    // An object without a prototype has no text.
    return 'unknown'
  }
}

/** Turns a JSON line into short text for a terminal. */
export function prettyLine(line: string): string {
  const { time, level, msg, err, ...rest } = JSON.parse(line) as Record<string, string>
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const stack = err === undefined ? '' : `\n  ${JSON.stringify(err)}`
  return `${time?.slice(11, 19)} ${level} ${msg ?? ''} ${fields.join(' ')}`.trimEnd() + `${stack}\n`
}
