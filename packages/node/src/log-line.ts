/** Lines of the servers' logs: what is told of an error, and a second lock on the door that keeps secrets out. */
import { StaticError } from '@static/protocol'

const SECRETS = /\b(sk_(?:live|test)_)[0-9A-Za-z]+|\beyJ[\w-]+\.[\w-]+\.[\w-]+|[^\s"@<>/]+@[^\s"@<>]+\.[^\s"@<>]+/g

/** Takes anything that looks like a key, a token or an e-mail address out of a line. */
export function redactLine(line: string): string {
  // Most lines hold nothing of the kind: three quick looks are cheaper than the pattern.
  if (!line.includes('@') && !line.includes('sk_') && !line.includes('eyJ')) return line
  return line.replace(SECRETS, (_match, prefix: string | undefined) => `${prefix ?? ''}[redacted]`)
}

/** What is told of an error: never its other fields, which may quote a row or a request. */
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

/** A line of JSON as short text for people. */
export function prettyLine(line: string): string {
  const { time, level, msg, err, ...rest } = JSON.parse(line) as Record<string, string>
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const stack = err === undefined ? '' : `\n  ${JSON.stringify(err)}`
  return `${time?.slice(11, 19)} ${level} ${msg ?? ''} ${fields.join(' ')}`.trimEnd() + `${stack}\n`
}
