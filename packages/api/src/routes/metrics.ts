/** /metrics: Prometheus text, for this machine and for clients with the metrics token. */
import { isIPv6 } from 'node:net'
import type { Registry } from 'prom-client'
import { constantTimeEqual } from '@static/node/compare'
import { StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'

/** `local`: this machine may read without the token. False behind a proxy, which often runs on this machine itself. */
export function metricsRoutes(app: App, registry: Registry, token: string | undefined, local: boolean): void {
  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    if (
      !(local && isLoopback(request.ip)) &&
      !(token !== undefined && constantTimeEqual(request.headers.authorization, `Bearer ${token}`))
    ) {
      throw StaticError.of('auth_failed', 'The metrics token is missing or wrong.')
    }
    return reply.type(registry.contentType).send(await registry.metrics())
  })
}

function isLoopback(address: string): boolean {
  return isIPv6(address) ? address === '::1' || address.startsWith('::ffff:127.') : address.startsWith('127.')
}
