/** Whether the relay can serve: `GET /health` for people and load balancers, grpc.health.v1 for gRPC clients. */
import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect'
import { Health as HealthService, HealthCheckResponse_ServingStatus as Status } from '@static/protocol/health'
import { Relay } from '@static/protocol/relay'
import type { Health } from '../../ports.ts'

/** The response to `GET /health`. */
export function healthAnswer({ ready, name, version }: Health): { readonly status: number; readonly body: object } {
  return ready
    ? { status: 200, body: { status: 'ok', name, version } }
    : { status: 503, body: { status: 'unavailable' } }
}

/** Serves grpc.health.v1. Watch is not implemented, which clients take as "do not watch". */
export function healthRoutes(router: ConnectRouter, health: () => Health): void {
  router.service(HealthService, {
    check({ service }) {
      if (service !== '' && service !== Relay.typeName) {
        throw new ConnectError(`Unknown service ${JSON.stringify(service)}.`, Code.NotFound)
      }
      return { status: health().ready ? Status.SERVING : Status.NOT_SERVING }
    },
  })
}
