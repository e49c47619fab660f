/** /metrics: Prometheus text, for this machine and for clients with the metrics token. */
import type { FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import { constantTimeEqual } from '@static/node/compare'
import { StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'

/** `isLocal`: whether a request comes from a program on this machine, which may read without the token. */
export function metricsRoutes(
  app: App,
  registry: Registry,
  token: string | undefined,
  isLocal: (request: FastifyRequest) => boolean,
): void {
  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    if (
      !isLocal(request) &&
      !(token !== undefined && constantTimeEqual(request.headers.authorization, `Bearer ${token}`))
    ) {
      throw StaticError.of('auth_failed', 'The metrics token is missing or wrong.')
    }
    return reply.type(registry.contentType).send(await registry.metrics())
  })
}
