/**
 * Structured logs of the servers: JSON lines, or short text on a terminal. Logged fields are chosen one by one and
 * contain no secrets; redaction in the last step is a second defense.
 */
import { pino, type Logger } from 'pino'
import { errorFields, prettyLine, redactLine } from './log-line.ts'

export type { Logger }

export interface LogOptions {
  readonly write: (line: string) => void
  /** Short text for a terminal instead of JSON. */
  readonly pretty: boolean
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

/** Creates a logger. `part` is included in every line, for servers that share a log. */
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
