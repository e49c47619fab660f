/** Whether the relay can serve: `GET /health`, `/health/ready` and `/health/live` for people, load balancers and supervisors, grpc.health.v1 for gRPC clients. */
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from '@connectrpc/connect'
import { Holdings, sourceOf } from '@static/protocol'
import { Health as HealthService, HealthCheckResponse_ServingStatus as Status } from '@static/protocol/health'
import { Relay } from '@static/protocol/relay'
import { type Health, storeClockProblem } from '../../ports.ts'

/** The response to `GET /health`. */
export function healthAnswer({ ready, name, version, bus, files }: Health): {
  readonly status: number
  readonly body: object
} {
  return ready
    ? { status: 200, body: { status: 'ok', name, version, ...filesOf(files), ...busOf(bus) } }
    : { status: 503, body: { status: 'unavailable' } }
}

/** The response to `GET /health/ready`, including whether the relay can use its API, and why not. */
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

/**
 * The response to `GET /health/live`. Ignores the database: restarting a process that lost it would only end its
 * sessions.
 */
export function liveAnswer(): { readonly status: number; readonly body: object } {
  return { status: 200, body: { status: 'ok' } }
}

/** A relay without its bus is still ready: it serves, and hears from other nodes a little later. */
function busOf(bus: Health['bus']): { readonly bus?: object } {
  return bus ? { bus: { status: bus.connected ? 'ok' : 'unavailable', other_nodes: bus.nodes } } : {}
}

/** For `static doctor`: agents learn it when they open a session. */
function filesOf(files: Health['files']): { readonly files_port?: number; readonly files_url?: string } {
  if (!files || files.port === 0) return {}
  return { files_port: files.port, ...(files.url === '' ? {} : { files_url: files.url }) }
}

function unreadiness({ store }: Health): string {
  return storeClockProblem(store?.clockOffsetMs ?? 0) ?? 'The relay is stopping, or cannot write to its database.'
}

/** The port's side of a watch. */
export interface Watched {
  /** The address that it counts for. */
  readonly subject: string
  /** Turns the answer into a stream, whose end is reported to `closed`. */
  open(closed: () => void): void
  /** Aborted when the watcher disconnects. */
  readonly gone: AbortSignal
  /** Aborted when the port stops. */
  readonly stopping: AbortSignal
  /** Called when nothing more will be sent. */
  readonly ended: () => void
}

/** Watches of a port, and of one address. */
const MOST_WATCHES = 1000
const MOST_WATCHES_PER_ADDRESS = 64
/** How often the status is checked while it is watched. */
const LOOK_MS = 500

/** Serves grpc.health.v1. */
export function healthRoutes(
  router: ConnectRouter,
  health: () => Health,
  watchedOf: (context: HandlerContext) => Watched,
): void {
  const watches = new Watches(health)
  router.service(HealthService, {
    check({ service }) {
      if (!isKnown(service)) throw new ConnectError(`Unknown service ${JSON.stringify(service)}.`, Code.NotFound)
      return { status: statusOf(health()) }
    },
    watch: ({ service }, context) => watches.open(watchedOf(context), isKnown(service)),
  })
}

/** An open watch. */
interface Watch {
  /** Makes it check the status. */
  wake: () => void
  /** Whether it has given way to another. */
  isOusted: boolean
  readonly ended: () => void
}

/**
 * The open watches. Each holds at most one status, however slowly it is read. When there is no room, the oldest watch
 * of the source with the most ends in favor of a source with fewer.
 */
class Watches {
  readonly #health: () => Health
  readonly #byAddress = new Holdings<Watch>()
  readonly #bySource = new Holdings<Watch>()
  readonly #all = new Set<Watch>()
  #timer: NodeJS.Timeout | undefined

  constructor(health: () => Health) {
    this.#health = health
  }

  /** Opens a watch. An unknown service stays unknown. */
  open(watched: Watched, known: boolean): AsyncIterable<{ readonly status: Status }> {
    const { subject, ended } = watched
    const source = sourceOf(subject)
    if (this.#byAddress.of(subject) >= MOST_WATCHES_PER_ADDRESS || !this.#makeRoom(source)) throw tooMany()
    const watch: Watch = { wake: () => {}, isOusted: false, ended }
    this.#byAddress.add(watch, subject)
    this.#bySource.add(watch, source)
    this.#all.add(watch)
    this.#timer ??= setInterval(() => this.#wakeAll(), LOOK_MS).unref()
    watched.open(() => this.#remove(watch))
    return this.#statuses(watch, watched, known)
  }

  async *#statuses(
    watch: Watch,
    { gone, stopping, ended }: Watched,
    known: boolean,
  ): AsyncGenerator<{ readonly status: Status }> {
    let last: Status | undefined
    const look = (): void => watch.wake()
    gone.addEventListener('abort', look)
    stopping.addEventListener('abort', look)
    try {
      while (!gone.aborted) {
        if (watch.isOusted) throw tooMany()
        const isOver = stopping.aborted
        const serving = isOver ? Status.NOT_SERVING : statusOf(this.#health())
        const status = known ? serving : Status.SERVICE_UNKNOWN
        if (isOver) ended()
        if (status !== last) yield { status }
        if (isOver) return
        last = status
        // Changes while the reader took the status are seen at the next check.
        const { promise, resolve } = Promise.withResolvers<void>()
        watch.wake = resolve
        if (!gone.aborted && !stopping.aborted && !watch.isOusted) await promise
      }
    } finally {
      stopping.removeEventListener('abort', look)
    }
  }

  #makeRoom(source: string): boolean {
    if (this.#all.size < MOST_WATCHES) return true
    const oldest = this.#bySource.most > this.#bySource.of(source) + 1 ? this.#bySource.first() : undefined
    if (oldest === undefined) return false
    this.#remove(oldest)
    oldest.isOusted = true
    oldest.wake()
    // However slowly it is read.
    oldest.ended()
    return true
  }

  #remove(watch: Watch): void {
    this.#byAddress.remove(watch)
    this.#bySource.remove(watch)
    this.#all.delete(watch)
    if (this.#all.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #wakeAll(): void {
    for (const watch of this.#all) watch.wake()
  }
}

function tooMany(): ConnectError {
  return new ConnectError('Too many watches are open. Use Check.', Code.ResourceExhausted)
}

function isKnown(service: string): boolean {
  return service === '' || service === Relay.typeName
}

function statusOf({ ready }: Health): Status {
  return ready ? Status.SERVING : Status.NOT_SERVING
}
