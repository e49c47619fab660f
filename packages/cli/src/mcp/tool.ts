/** What a tool is, and what tools have in common. */
import { isChannelName, StaticError } from '@static/protocol'
import type { Arguments, Field, InputSchema } from './schema.ts'
import type { Session } from './session.ts'

/** The context of a tool call. */
export interface Call {
  readonly session: Session
  /** The agent's directory. */
  readonly dataDir: string
  readonly request: string | number
  readonly signal: AbortSignal
}

/** A tool as the host sees it, with its implementation. */
export interface Tool {
  readonly name: string
  readonly description: string
  readonly inputSchema: InputSchema
  readonly outputSchema: OutputSchema
  readonly annotations?: { readonly readOnlyHint?: boolean; readonly destructiveHint?: boolean }
  /** The files in a result, for hosts that show them. */
  readonly links?: (result: Readonly<Record<string, unknown>>) => readonly Readonly<Record<string, unknown>>[]
  readonly run: (args: Arguments, call: Call) => Promise<Readonly<Record<string, unknown>>>
}

/** The schema of a result: an object. */
export interface OutputSchema {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, object>>
  readonly required: readonly string[]
}

/** Hosts give up after 60 s. */
export const LONGEST_WAIT = 50

export const CHANNEL: Field = { type: 'string', description: 'org/namespace/service' }
export const TEXT = { type: 'string' } as const
export const INTEGER = { type: 'integer' } as const
export const FLAG = { type: 'boolean' } as const
export const READS = { readOnlyHint: true } as const
export const WAIT: Field = { type: 'integer', minimum: 1, maximum: LONGEST_WAIT }

/** The schema of an object that has all these fields. */
export function outputOf(properties: Readonly<Record<string, object>>): OutputSchema {
  return { type: 'object', properties, required: Object.keys(properties) }
}

export function listOf(properties: Readonly<Record<string, object>>): object {
  return { type: 'array', items: { type: 'object', properties } }
}

/** The channel named by a call. */
export function channelOf({ channel }: Arguments): string {
  if (isChannelName(channel)) return channel
  throw StaticError.of(
    'channel_error',
    `\`channel\` is ${JSON.stringify(String(channel).slice(0, 60))}. It must be a name like org/namespace/service.`,
  )
}

/**
 * The text of a call, as bytes.
 *
 * @throws {StaticError} `invalid_request` if there is none, `too_large`
 */
export function payloadOf({ text }: Arguments, most: number): Buffer {
  if (text === undefined) throw StaticError.of('invalid_request', '`text` is required.')
  const payload = Buffer.from(String(text))
  if (payload.length === 0) throw StaticError.of('invalid_request', '`text` is empty.')
  if (payload.length <= most) return payload
  throw StaticError.of(
    'too_large',
    `\`text\` has ${payload.length} bytes; the limit is ${most}. Send it in parts, or send a reference to it.`,
  )
}
