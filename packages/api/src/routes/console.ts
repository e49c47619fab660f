/** /console: the web console of an account. It uses the API like any other client. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'
import type { BuiltPage, PageFile } from '../http/built-page.ts'

/** Allows only files and requests of this origin: no inline script or style, no frames, no form submission. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  vary: 'accept-encoding',
}

/** `Accept-Encoding` contains gzip, and not with the weight 0. */
const GZIP = /(?:^|,)\s*gzip\s*(?:,|$|;\s*q=(?!0(?:\.0*)?\s*(?:,|$)))/i

export function consoleRoutes(app: App, page: BuiltPage): void {
  for (const path of ['/console', '/console/']) {
    app.get(path, { schema: { hide: true } }, (request, reply) => send(request, reply, page.index))
  }
  app.get('/console/assets/:name', { schema: { hide: true } }, (request, reply) => {
    const file = page.assets.get((request.params as { name: string }).name)
    if (!file) throw StaticError.of('not_found', 'No resource exists at this path.')
    // The name contains a hash of the content.
    reply.header('cache-control', 'public, max-age=31536000, immutable')
    return send(request, reply, file)
  })
}

function send(request: FastifyRequest, reply: FastifyReply, { type, body, gzip }: PageFile): FastifyReply {
  reply.headers(HEADERS).type(type)
  const packed = GZIP.test(request.headers['accept-encoding'] ?? '')
  return packed ? reply.header('content-encoding', 'gzip').send(gzip) : reply.send(body)
}
