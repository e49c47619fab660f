/** Structured logs: JSON lines, or short text on a terminal. They hold ids and codes, never a key, token or content. */
import { type Logger, pino } from 'pino'
import { errorFields, prettyLine, redactLine } from '@static/protocol'

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
      base: { part: 'relay' },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    { write: (line: string) => write(redactLine(pretty ? prettyLine(line) : line)) },
  )
}
