/** Requests for parts by HTTP, and their refusals (SPEC.md, "Files"). */
import { constants } from 'node:http2'
import { ERRORS, FILE_PART_BYTES, FILE_PART_OVERHEAD, SESSION_METADATA } from '@static/protocol'
import type { PartAsk, Refusal } from '../ports.ts'
import type { HttpRequest } from '../transport/http2/plain.ts'
import type { HttpResponse } from '../transport/http2/responses.ts'

/** No part is longer. */
export const MAX_BODY_BYTES: number = FILE_PART_BYTES + FILE_PART_OVERHEAD
/** When to try again if there is no place. */
export const BUSY_MS = 1000
/** In requests of a proxy: the address of its agent. */
export const AGENT_ADDRESS = 'static-agent-address'
const LENGTH = /^[1-9][0-9]{0,6}$/
const PATH = /^\/v1\/files\/([0-9a-f]{32})\/([0-9a-f]{32})\/(0|[1-9][0-9]{0,3})$/

/** What a request for a part wants, or why it is refused at once. */
export function askOf(request: HttpRequest): PartAsk | Refusal {
  const { method, url = '', headers } = request
  const found = PATH.exec(url)
  if (!found) return { refused: 'not_found', message: 'The path must be /v1/files/CHANNEL/FILE/PART.' }
  const verb = method === 'PUT' ? 'put' : method === 'GET' ? 'get' : undefined
  if (!verb) return { refused: 'method_not_allowed', message: 'Method not allowed. Allowed: GET, PUT.' }
  const message = verb === 'get' ? faultOfNoBody(request) : faultOfBody(request)
  if (message !== undefined) return { refused: 'invalid_request', message }
  const [, channel = '', file = '', part] = found
  const token = headers[SESSION_METADATA]
  return { verb, channel, file, part: Number(part), token: typeof token === 'string' ? token : '' }
}

/**
 * What is wrong with a GET that has a body. Whoever passes it on without its length, or does not read it, takes its bytes
 * for the next request on the connection.
 */
function faultOfNoBody(request: HttpRequest): string | undefined {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = request.headers
  const isEmpty = length === '0' && coding === undefined && !('stream' in request && !request.stream.endAfterHeaders)
  return isEmpty ? undefined : 'A GET has no body.'
}

/** What is wrong with the length of a PUT: it must be known before anything comes. */
function faultOfBody({ headers }: HttpRequest): string | undefined {
  const length = headers['content-length']
  if (length !== undefined && LENGTH.test(length) && Number(length) <= MAX_BODY_BYTES) return undefined
  return `Content-Length must be the size of the part, at most ${MAX_BODY_BYTES}, not ${length ?? 'absent'}.`
}

/** Over HTTP/1.1, closes the connection after the answer if its body may be longer than any part: Node would read it all. */
export function limitBody({ headers }: HttpRequest, response: HttpResponse): void {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = headers
  if (coding !== undefined || Number(length) > MAX_BODY_BYTES) response.shouldKeepAlive = false
}

/** Leaves the rest of a body unread once the request is answered. */
export function leaveBody(response: HttpResponse): void {
  // Over HTTP/1.1, Node reads the rest and drops it. Over HTTP/2 it would use up the connection's window, and the response
  // itself would not be over before it had come.
  if (!('stream' in response)) return
  const { stream } = response
  stream.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR))
}

/** Ends a request with a problem document. A body that is still coming is not read. */
export function refuse(response: HttpResponse, { refused, message, retryAfterMs }: Refusal): void {
  const { status, title, help } = ERRORS[refused]
  const isBusy = status === 429 || status === 503
  if (isBusy) response.setHeader('retry-after', Math.max(1, Math.ceil((retryAfterMs ?? BUSY_MS) / 1000)))
  if (refused === 'method_not_allowed') response.setHeader('allow', 'GET, PUT')
  response.writeHead(status, { 'content-type': 'application/problem+json', 'cache-control': 'no-store' })
  leaveBody(response)
  response.end(JSON.stringify({ title, status, detail: message ?? help, code: refused }))
}
