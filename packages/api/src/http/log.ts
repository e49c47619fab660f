/**
 * Structured logs: JSON lines, or short text on a terminal. What is logged is chosen field by field
 * and holds no secret; the last step below is a second lock on that door.
 */
import { pino, type Logger } from 'pino'
import { StaticError } from '@static/protocol'

const SECRETS = /\b(sk_(?:live|test)_)[0-9A-Za-z]+|\beyJ[\w-]+\.[\w-]+\.[\w-]+|[^\s"@<>]+@[^\s"@<>]+\.[^\s"@<>]+/g

/** Where lines go. */
export interface LogOptions {
  readonly write: (line: string) => void
  /** Short text for people instead of JSON. */
  readonly pretty: boolean
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

/** Makes the log. */
export function makeLog({ write, pretty, level }: LogOptions): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    { write: (line: string) => write(redact(pretty ? prettyLine(line) : line)) },
  )
}

/** Takes anything that looks like a key, a token or an e-mail address out of a line. */
export function redact(line: string): string {
  // Most lines hold nothing of the kind: three quick looks are cheaper than the pattern.
  if (!line.includes('@') && !line.includes('sk_') && !line.includes('eyJ')) return line
  return line.replace(SECRETS, (_match, prefix: string | undefined) => `${prefix ?? ''}[redacted]`)
}

/** What is told of an error: never its other fields, which may quote a row or a request. */
function errorFields(error: unknown): Record<string, unknown> {
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

function prettyLine(line: string): string {
  const { time, level, msg, err, ...rest } = JSON.parse(line) as Record<string, string>
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const stack = err === undefined ? '' : `\n  ${JSON.stringify(err)}`
  return `${time?.slice(11, 19)} ${level} ${msg ?? ''} ${fields.join(' ')}`.trimEnd() + `${stack}\n`
}
