/**
 * One request to the HTTP API over TLS 1.3. The key goes nowhere else: never after a redirect, and into no error.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { peerSentence, peerText } from '@static/node/peer-text'
import { ERRORS, type ErrorCode, type Problem, StaticError } from '@static/protocol'
import { tcpFailure } from './transport/tcp-failure.ts'

/** What is asked of the API. */
export interface ApiCall {
  readonly url: URL
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly apiKey?: string | undefined
  /** Sent as JSON. */
  readonly body?: unknown
  /** The authority of the API's certificate, PEM; undefined: those that Node knows. */
  readonly ca: string | undefined
  readonly timeoutMs?: number | undefined
}

/** What the API answers. */
export interface ApiAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Undefined when the body is not JSON. */
  readonly json: unknown
}

/** How long an answer may take. */
const TIMEOUT_MS = 10_000
const MAX_ANSWER_BYTES = 65_536

/**
 * Asks on a connection of its own.
 *
 * @throws {StaticError} `connection_error` when the API cannot be reached, `unavailable` when it answers without end
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
    // Not as NODE_TLS_REJECT_UNAUTHORIZED may want it.
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  })
  const timer = setTimeout(
    () => sent.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })),
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

/** What the API says against a call, as an error with its code; `secret` is left out of the words. */
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
  if (status === 401) return StaticError.of('auth_failed', `The API at ${origin} does not take the API key.`, details)
  return StaticError.of('unavailable', `The API at ${origin} answers with HTTP status ${status}.`, details)
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
    if (length > maxBytes) throw StaticError.of('unavailable', 'The API answers with more than it should.')
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
