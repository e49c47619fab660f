/**
 * What travels in a request and its answers (docs/a2a-binding.md): a JSON-RPC call of A2A with its service parameters,
 * which HTTP would carry as headers, and JSON-RPC responses, one per answer.
 */

/** Service parameters by name. Names do not depend on case. */
export type Parameters = Readonly<Record<string, string>>

/** A call as it travels. */
export interface Envelope {
  readonly parameters: Parameters
  readonly call: Readonly<Record<string, unknown>>
}

/** Bounds of what another member sends. */
const MOST_PARAMETERS = 64
const MOST_PARAMETER_CHARACTERS = 8192

/** Encodes a call, which is JSON already. */
export function encodeEnvelope(parameters: Parameters, call: string): string {
  return `{"parameters":${JSON.stringify(parameters)},"call":${call}}`
}

/** Decodes a call. Throws a SyntaxError if it is not JSON; undefined if it has another form. */
export function decodeEnvelope(text: string): Envelope | undefined {
  const value: unknown = JSON.parse(text)
  if (!isObject(value) || !isObject(value['call']) || !isObject(value['parameters'])) return undefined
  const entries = Object.entries(value['parameters'])
  if (entries.length > MOST_PARAMETERS) return undefined
  const parameters: Record<string, string> = {}
  for (const [name, text] of entries) {
    if (typeof text !== 'string' || name.length + text.length > MOST_PARAMETER_CHARACTERS) return undefined
    parameters[name.toLowerCase()] = text
  }
  return { parameters, call: value['call'] }
}

/** The error of a JSON-RPC response, if it has one. */
export function hasError(response: string): boolean {
  const value: unknown = JSON.parse(response)
  return isObject(value) && 'error' in value
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
