/**
 * Structured logs of the servers: JSON lines, or short text on a terminal. What is logged is chosen field by field and
 * holds no secret; the last step below is a second lock on that door.
 */
import { pino, type Logger } from 'pino'
import { errorFields, prettyLine, redactLine } from './log-line.ts'

export type { Logger }

/** Where lines go. */
export interface LogOptions {
  readonly write: (line: string) => void
  /** Short text for people instead of JSON. */
  readonly pretty: boolean
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

/** Makes the log; `part` stands in every line, for servers that share a log. */
export function makeLog({ write, pretty, level }: LogOptions, part?: string): Logger {
  return pino(
    {
      level,
      base: part === undefined ? null : { part },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    { write: (line: string) => write(redactLine(pretty ? prettyLine(line) : line)) },
  )
}
