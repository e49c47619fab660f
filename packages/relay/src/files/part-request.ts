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
const PATH = /^\/v1\/files\/([0-9a-f]{32})\/([0-9a-f]{32})\/(0|[1-9][0-9]{0,3})$/

/** What a request for a part wants, or why it is refused at once. */
export function askOf({ method, url = '', headers }: HttpRequest): PartAsk | Refusal {
  const found = PATH.exec(url)
  if (!found) return { refused: 'not_found', message: 'The path must be /v1/files/CHANNEL/FILE/PART.' }
  const verb = method === 'PUT' ? 'put' : method === 'GET' ? 'get' : undefined
  if (!verb) return { refused: 'method_not_allowed', message: 'Method not allowed. Allowed: GET, PUT.' }
  const [, channel = '', file = '', part] = found
  const token = headers[SESSION_METADATA]
  return { verb, channel, file, part: Number(part), token: typeof token === 'string' ? token : '' }
}

/** Ends a request with a problem document. A body that is still coming is not read. */
export function refuse(response: HttpResponse, { refused, message, retryAfterMs }: Refusal): void {
  const { status, title, help } = ERRORS[refused]
  const isBusy = status === 429 || status === 503
  if (isBusy) response.setHeader('retry-after', Math.max(1, Math.ceil((retryAfterMs ?? BUSY_MS) / 1000)))
  if (refused === 'method_not_allowed') response.setHeader('allow', 'GET, PUT')
  response.writeHead(status, { 'content-type': 'application/problem+json', 'cache-control': 'no-store' })
  // Over HTTP/1.1, Node reads the rest of the body and drops it. Over HTTP/2 it would use up the connection's window.
  if ('stream' in response) response.once('finish', () => response.stream.close(constants.NGHTTP2_NO_ERROR))
  response.end(JSON.stringify({ title, status, detail: message ?? help, code: refused }))
}
