/** /metrics: Prometheus text, for this machine and for clients with the metrics token. */
import type { Registry } from 'prom-client'
import { isLoopbackAddress } from '@static/node/address'
import { constantTimeEqual } from '@static/node/compare'
import { StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'

/** `local`: this machine may read without the token. False behind a proxy, which often runs on this machine itself. */
export function metricsRoutes(app: App, registry: Registry, token: string | undefined, local: boolean): void {
  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    if (
      !(local && isLoopbackAddress(request.ip)) &&
      !(token !== undefined && constantTimeEqual(request.headers.authorization, `Bearer ${token}`))
    ) {
      throw StaticError.of('auth_failed', 'The metrics token is missing or wrong.')
    }
    return reply.type(registry.contentType).send(await registry.metrics())
  })
}
