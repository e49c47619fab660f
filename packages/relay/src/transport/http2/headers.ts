/** The headers of every answer that is not a native gRPC stream, and what pages of other origins may do. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import { cors } from '@connectrpc/connect'
import { ERROR_METADATA, SESSION_METADATA } from '@static/protocol'

const PREFLIGHT_SECONDS = '7200'
const ALLOWED_METHODS = cors.allowedMethods.join(', ')
const ALLOWED_HEADERS = [...cors.allowedHeaders, SESSION_METADATA].join(', ')
const EXPOSED_HEADERS = [...cors.exposedHeaders, SESSION_METADATA, ERROR_METADATA].join(', ')

/** Headers that do not depend on the answer. HSTS would stick to every service of this machine's own name. */
export function commonHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const authority = headers[':authority'] ?? headers.host
  const name = typeof authority === 'string' ? authority.replace(/:\d+$/, '') : ''
  return {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(/(^|\.)localhost$/i.test(name) ? {} : { 'strict-transport-security': 'max-age=31536000; includeSubDomains' }),
  }
}

/** What a page of a configured origin may read; nothing for the others. */
export function corsHeaders(headers: IncomingHttpHeaders, origins: ReadonlySet<string>): OutgoingHttpHeaders {
  if (origins.size === 0) return {}
  const { origin } = headers
  if (origin === undefined || !origins.has(origin)) return { vary: 'origin' }
  return { vary: 'origin', 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED_HEADERS }
}

/** The answer to a page that asks what it may send; undefined when it may not, or did not ask. */
export function preflightHeaders(
  method: string | undefined,
  headers: IncomingHttpHeaders,
  origins: ReadonlySet<string>,
): OutgoingHttpHeaders | undefined {
  const asked = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  if (!asked || !origins.has(headers.origin ?? '')) return undefined
  return {
    'access-control-allow-methods': ALLOWED_METHODS,
    'access-control-allow-headers': ALLOWED_HEADERS,
    'access-control-max-age': PREFLIGHT_SECONDS,
  }
}
