/** Whether the relay can serve: `GET /health`, `/health/ready` and `/health/live` for people, load balancers and supervisors, grpc.health.v1 for gRPC clients. */
import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect'
import { Health as HealthService, HealthCheckResponse_ServingStatus as Status } from '@static/protocol/health'
import { Relay } from '@static/protocol/relay'
import { type Health, storeClockProblem } from '../../ports.ts'

/** The response to `GET /health`. */
export function healthAnswer({ ready, name, version, bus }: Health): {
  readonly status: number
  readonly body: object
} {
  return ready
    ? { status: 200, body: { status: 'ok', name, version, ...busOf(bus) } }
    : { status: 503, body: { status: 'unavailable' } }
}

/** The response to `GET /health/ready`: also whether the relay can use its API, and why not. */
export function readyAnswer(health: Health): { readonly status: number; readonly body: object } {
  const { ready, name, version, api, store, bus } = health
  const status = api?.problem === undefined ? 'ok' : 'unavailable'
  const rest = {
    name,
    version,
    ...(api ? { api: { status, clock_offset_ms: api.clockOffsetMs ?? null } } : {}),
    ...(store ? { store: { durability: store.durability, clock_offset_ms: store.clockOffsetMs ?? null } } : {}),
    ...busOf(bus),
  }
  const reason = ready ? api?.problem : unreadiness(health)
  return reason === undefined
    ? { status: 200, body: { status: 'ok', ...rest } }
    : { status: 503, body: { status: 'unavailable', reason, ...rest } }
}

/** The response to `GET /health/live`: to restart a process that lost its database would only end its sessions. */
export function liveAnswer(): { readonly status: number; readonly body: object } {
  return { status: 200, body: { status: 'ok' } }
}

/** A relay without its bus is ready: it serves, and hears from other nodes a little later. */
function busOf(bus: Health['bus']): { readonly bus?: object } {
  return bus ? { bus: { status: bus.connected ? 'ok' : 'unavailable', other_nodes: bus.nodes } } : {}
}

function unreadiness({ store }: Health): string {
  return storeClockProblem(store?.clockOffsetMs ?? 0) ?? 'The relay is stopping, or cannot write to its database.'
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
