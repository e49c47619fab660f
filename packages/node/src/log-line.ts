/** Log lines of the servers: which fields of an error are logged, and redaction as a second defense for secrets. */
import { StaticError } from '@static/protocol'

const SECRETS = /\b(sk_(?:live|test)_)[0-9A-Za-z]+|\beyJ[\w-]+\.[\w-]+\.[\w-]+|[^\s"@<>/]+@[^\s"@<>]+\.[^\s"@<>]+/g

/** Redacts anything that looks like a key, a token or an e-mail address. */
export function redactLine(line: string): string {
  // Most lines contain none of these: three substring searches are cheaper than the pattern.
  if (!line.includes('@') && !line.includes('sk_') && !line.includes('eyJ')) return line
  return line.replace(SECRETS, (_match, prefix: string | undefined) => `${prefix ?? ''}[redacted]`)
}

/** The fields of an error to log: never its other fields, which may quote a row or a request. */
export function errorFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error) }
  const { code } = error as { code?: unknown }
  return {
    type: error.name,
    message: error.message,
    ...(typeof code === 'string' ? { code } : {}),
    ...(error instanceof StaticError ? {} : { stack: error.stack }),
    ...(error.cause === undefined ? {} : { cause: errorFields(error.cause) }),
  }
}

/** Turns a JSON line into short text for a terminal. */
export function prettyLine(line: string): string {
  const { time, level, msg, err, ...rest } = JSON.parse(line) as Record<string, string>
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const stack = err === undefined ? '' : `\n  ${JSON.stringify(err)}`
  return `${time?.slice(11, 19)} ${level} ${msg ?? ''} ${fields.join(' ')}`.trimEnd() + `${stack}\n`
}
