/**
 * A single request to the HTTP API over TLS 1.3. The API key is sent nowhere else: it never follows a redirect and
 * never appears in an error.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { peerSentence, peerText } from '@static/node/peer-text'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { ERRORS, type ErrorCode, type Problem, StaticError } from '@static/protocol'
import { tcpFailure } from '../transport/tcp-failure.ts'

export interface ApiCall {
  readonly url: URL
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly apiKey?: string | undefined
  /** Sent as JSON. */
  readonly body?: unknown
  /** CA of the API's certificate, PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  readonly timeoutMs?: number | undefined
}

export interface ApiAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Undefined if the body is not JSON. */
  readonly json: unknown
}

/** Default for `ApiCall.timeoutMs`. */
const TIMEOUT_MS = 10_000
const MAX_ANSWER_BYTES = 65_536

/**
 * Sends a request on a new connection.
 *
 * @throws {StaticError} `connection_error` if the API cannot be reached, `unavailable` if its response is too long
 */
export async function callApi({ url, method, headers, apiKey, body, ca, timeoutMs }: ApiCall): Promise<ApiAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ApiAnswer>()
  const sent = request(url, {
    method,
    agent: false,
    headers: {
      accept: 'application/json',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    minVersion: 'TLSv1.3',
    ecdhCurve: TLS_GROUPS,
    // Regardless of NODE_TLS_REJECT_UNAUTHORIZED.
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  })
  const timer = setTimeout(
    () => sent.destroy(Object.assign(new Error('request timed out'), { code: 'ETIMEDOUT' })),
    timeoutMs ?? TIMEOUT_MS,
  )
  sent.on('response', (response) => {
    gather(response, MAX_ANSWER_BYTES).then(
      (bytes) => resolve({ status: response.statusCode ?? 0, headers: response.headers, json: parsed(bytes) }),
      (error: unknown) => {
        reject(error)
        sent.destroy()
      },
    )
  })
  sent.on('error', reject)
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  try {
    return await promise
  } catch (cause) {
    const place = `${url.hostname}:${url.port === '' ? 443 : url.port}`
    const failure = tcpFailure({ place, serverName: url.hostname, cause })
    throw failure.code === 'connection_error'
      ? StaticError.of('connection_error', `The API at ${url.origin} cannot be reached. ${failure.message}`, { cause })
      : failure
  } finally {
    clearTimeout(timer)
  }
}

/** Converts an error response from the API to an error with its code. `secret` is removed from the message. */
export function apiRefusal({ origin }: URL, { status, headers, json }: ApiAnswer, secret = ''): StaticError {
  const { code, detail, errors } = (json ?? {}) as Partial<Problem>
  const retryAfter = secondsOf(headers)
  const details = {
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(Array.isArray(errors) ? { errors: errors.filter(isFieldError).map(fieldError) } : {}),
  }
  if (typeof code === 'string' && Object.hasOwn(ERRORS, code)) {
    const known: ErrorCode = code
    const words =
      typeof detail === 'string' ? peerSentence(secret === '' ? detail : detail.replaceAll(secret, '…')) : ''
    return StaticError.of(known, words === '' ? undefined : words, details)
  }
  if (status === 401) return StaticError.of('auth_failed', `The API at ${origin} rejected the API key.`, details)
  return StaticError.of('unavailable', `The API at ${origin} answered with HTTP status ${status}.`, details)
}

interface FieldError {
  readonly field: string
  readonly message: string
}

function isFieldError(given: unknown): given is FieldError {
  const { field, message } = (given ?? {}) as Partial<FieldError>
  return typeof field === 'string' && typeof message === 'string'
}

function fieldError({ field, message }: FieldError): FieldError {
  return { field: peerText(field), message: peerText(message) }
}

async function gather(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxBytes)
      throw StaticError.of('unavailable', `The response from the API is longer than ${maxBytes} bytes.`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

function secondsOf(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['retry-after'] ?? ''
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined
}
