/** Headers of every response except native gRPC streams, and CORS. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import { cors } from '@connectrpc/connect'
import { ERROR_METADATA, SESSION_METADATA } from '@static/protocol'

const PREFLIGHT_SECONDS = '7200'
const ALLOWED_METHODS = cors.allowedMethods.join(', ')
const ALLOWED_HEADERS = [...cors.allowedHeaders, SESSION_METADATA].join(', ')
const EXPOSED_HEADERS = [...cors.exposedHeaders, SESSION_METADATA, ERROR_METADATA].join(', ')

/** Headers that do not depend on the response. No HSTS: it would apply to every service under this machine's name. */
export function commonHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const authority = headers[':authority'] ?? headers.host
  const name = typeof authority === 'string' ? authority.replace(/:\d+$/, '') : ''
  return {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(/(^|\.)localhost$/i.test(name) ? {} : { 'strict-transport-security': 'max-age=31536000; includeSubDomains' }),
  }
}

/** CORS headers for a page of an allowed origin; none for others. */
export function corsHeaders(headers: IncomingHttpHeaders, origins: ReadonlySet<string>): OutgoingHttpHeaders {
  if (origins.size === 0) return {}
  const { origin } = headers
  if (origin === undefined || !origins.has(origin)) return { vary: 'origin' }
  return { vary: 'origin', 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED_HEADERS }
}

/** Headers of a preflight response; undefined if the origin is not allowed or it is not a preflight. */
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
