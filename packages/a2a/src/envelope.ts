/**
 * The content of a request and its answers (docs/a2a-binding.md): a JSON-RPC call of A2A with its service parameters,
 * which HTTP would carry as headers, and JSON-RPC responses, one per answer.
 */
import { InvalidAgentResponseError, RequestMalformedError } from '@a2a-js/sdk/errors'
import { CALL_BOUNDS, excess, RESPONSE_BOUNDS } from './limits.ts'

/** Service parameters by name. Names are case-insensitive. */
export type ServiceParameters = Readonly<Record<string, string>>

/** A call in its transmitted form. */
export interface Envelope {
  readonly parameters: ServiceParameters
  readonly call: Readonly<Record<string, unknown>>
}

/** The facts about a call that its response must match. */
export interface Called {
  readonly id: unknown
  readonly method: unknown
}

/** A response that matches its call. It has either a result or an error. */
export interface CallResponse {
  readonly result?: unknown
  readonly error?: unknown
}

/** Bounds on data from another member. */
const MOST_PARAMETERS = 64
const MOST_PARAMETER_CHARACTERS = 8192

/** The only method without a result. */
const DELETE_METHOD = 'DeleteTaskPushNotificationConfig'

/** Encodes a call, which is JSON already. */
export function encodeEnvelope(parameters: ServiceParameters, call: string): string {
  return `{"parameters":${JSON.stringify(parameters)},"call":${call}}`
}

/**
 * Decodes a call.
 *
 * @throws {SyntaxError} if it is not JSON
 * @throws {RequestMalformedError} if it has another form, or exceeds a bound
 */
export function decodeEnvelope(text: string): Envelope {
  const value: unknown = JSON.parse(text)
  if (!isObject(value) || !isObject(value['call']) || !isObject(value['parameters'])) throw malformed()
  const entries = Object.entries(value['parameters'])
  if (entries.length > MOST_PARAMETERS) throw malformed()
  const parameters: Record<string, string> = {}
  for (const [name, text] of entries) {
    if (typeof text !== 'string' || name.length + text.length > MOST_PARAMETER_CHARACTERS) throw malformed()
    parameters[name.toLowerCase()] = text
  }
  const { call } = value
  const reason = excess(call, CALL_BOUNDS)
  if (reason) throw new RequestMalformedError(`The call ${reason}.`)
  return { parameters, call }
}

/**
 * Decodes a response.
 *
 * @throws {InvalidAgentResponseError} if it is not a response to this call, or exceeds a bound
 */
export function decodeResponse(text: string, { id, method }: Called): CallResponse {
  const value = parsed(text)
  if (!isObject(value) || value['jsonrpc'] !== '2.0') throw invalid('is not a JSON-RPC 2.0 response')
  const reason = excess(value, RESPONSE_BOUNDS)
  if (reason) throw invalid(reason)
  if ('error' in value) {
    if (!isError(value['error']) || 'result' in value) throw invalid('has no valid error')
    // A server that could not read the call does not know its id.
    if (value['id'] !== id && value['id'] !== null) throw invalid('has the id of another call')
    return { error: value['error'] }
  }
  if (value['id'] !== id) throw invalid('has the id of another call')
  if (!isObject(value['result']) && !(value['result'] === null && method === DELETE_METHOD))
    throw invalid('has no result')
  return { result: value['result'] }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('is not JSON')
  }
}

function isError(value: unknown): boolean {
  return isObject(value) && Number.isInteger(value['code']) && typeof value['message'] === 'string'
}

function malformed(): RequestMalformedError {
  return new RequestMalformedError('Invalid JSON-RPC Request.')
}

function invalid(reason: string): InvalidAgentResponseError {
  return new InvalidAgentResponseError(`The agent's response ${reason}.`)
}
