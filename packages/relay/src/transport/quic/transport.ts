/**
 * Session streams over QUIC (SPEC.md, "Sessions"): a session is one bidirectional stream that the client opens. An
 * agent's connection carries one; a stand-alone proxy, identified by its client certificate, may carry many. A relay
 * has one or several endpoints on consecutive ports, each in its own thread: the library's work per packet grows with
 * the connections of its endpoint, so plan about 1,000 sessions for each.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { type Pace, StaticError } from '@static/protocol'
import type { PacingCounts } from '../../session/pacing.ts'
import type { Certificate, FullTransport, Peer, StreamHandler, StreamId, Transport } from '../../ports.ts'
import { freePorts, listenAddresses } from './address.ts'
import { type EndpointHandler, QuicEndpoint } from './endpoint.ts'
import type { StreamNumber } from './worker-messages.ts'

/** Options for listening. */
export interface QuicOptions {
  /** An address or name; `localhost`, `0.0.0.0` and `::` mean both families. */
  readonly host: string
  /** The first port; 0 for any. */
  readonly port: number
  /** Number of endpoints, on consecutive ports. */
  readonly endpoints: number
  /** If false and a port after the first cannot be used, those before it are enough. */
  readonly allPorts?: boolean
  readonly certificate: Certificate
  /** CA, PEM, whose client certificates identify stand-alone proxies. */
  readonly proxyCa?: string | undefined
  /**
   * Maximum number of sessions per endpoint. A tenth more can connect, only to be redirected to an endpoint with room,
   * if any.
   */
  readonly maxSessions?: number
  readonly idleTimeoutMs?: number
  /** Called for a connection that is refused because no endpoint has room or that tenth is used up. */
  readonly full?: (address: string, full: FullTransport) => void
  /** Receives messages for the operator. */
  readonly log?: (message: string, detail: { readonly port: number; readonly detail: string }) => void
}

/** The QUIC side of a relay. */
export interface QuicTransport extends Transport {
  readonly ports: readonly number[]
  /** Number of agent sessions per endpoint, in the order of the ports. A proxy's agents share its connection. */
  sessions(): readonly number[]
  /** Counts of the clocks in each endpoint's thread, at most a second old. */
  pacing(): readonly PacingCounts[]
  /**
   * Uses another certificate. The library cannot swap it, so the endpoints restart one after the other: all streams of
   * an endpoint close, and its agents reconnect to the new certificate a moment later.
   *
   * Throws `invalid_request` if certificate and key do not match; then nothing has changed.
   */
  renew(certificate: Certificate): Promise<void>
}

const PORT_TRIES = 20
const MAX_SESSIONS = 1000

/** The endpoint of a stream. */
interface Route {
  readonly endpoint: QuicEndpoint
  readonly stream: StreamNumber
}

/**
 * Starts the endpoints of a relay. Resolves when all of them listen.
 *
 * Throws `invalid_request` for an unusable host or certificate, `connection_error` if a port is in use.
 */
export async function startQuicTransport(options: QuicOptions, handler: StreamHandler): Promise<QuicTransport> {
  checkCertificate(options.certificate)
  checkAuthority(options.proxyCa)
  const addresses = await listenAddresses(options.host)
  for (let attempt = 1; ; attempt++) {
    const first = options.port === 0 ? await freePorts(addresses[0] ?? '', options.endpoints) : options.port
    const transport = new Endpoints(options, handler)
    try {
      if (first === undefined)
        throw StaticError.of(
          'connection_error',
          `Found no ${options.endpoints} consecutive free UDP ports. Pass --quic-port, or fewer --quic-endpoints.`,
        )
      await transport.start(addresses, first)
      return transport
    } catch (error) {
      await transport.stop()
      // Another process, or another address of this one, may have taken a port that looked free.
      if (options.port !== 0 || attempt === PORT_TRIES) throw error
    }
  }
}

class Endpoints implements QuicTransport {
  readonly #options: QuicOptions
  readonly #handler: StreamHandler
  readonly #endpoints: QuicEndpoint[] = []
  readonly #routes = new Map<StreamId, Route>()
  /** The handler's actions on a new stream before its id is known. */
  #early: (() => void)[] | undefined
  #renewing: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(options: QuicOptions, handler: StreamHandler) {
    this.#options = options
    this.#handler = handler
  }

  get ports(): readonly number[] {
    return this.#endpoints.map(({ port }) => port)
  }

  sessions(): readonly number[] {
    return this.#endpoints.map(({ sessions }) => sessions)
  }

  async start(addresses: readonly string[], first: number): Promise<void> {
    const { endpoints, certificate, proxyCa, maxSessions = MAX_SESSIONS, idleTimeoutMs = 30_000 } = this.#options
    const { allPorts = true } = this.#options
    const maxConnections = Math.ceil(maxSessions * 1.1)
    for (let port = first; port < first + endpoints; port++) {
      const { cert, key } = certificate
      const settings = { addresses, port, cert, key, proxyCa, maxConnections, idleTimeoutMs }
      const handler = this.#handlerAt(port)
      try {
        this.#endpoints.push(await QuicEndpoint.start(settings, handler))
      } catch (error) {
        if (allPorts || port === first) throw error
        const count = port - first
        handler.log(`Serving ${count} of ${endpoints} QUIC endpoints.`, StaticError.from(error).message)
        return
      }
    }
  }

  write(streams: readonly StreamId[], cells: Uint8Array, urgent = false): void {
    if (this.#early !== undefined) {
      this.#early.push(() => this.write(streams, cells, urgent))
      return
    }
    const targets = new Map<QuicEndpoint, StreamNumber[]>()
    for (const id of streams) {
      const route = this.#routes.get(id)
      if (route === undefined) continue
      const list = targets.get(route.endpoint)
      if (list === undefined) targets.set(route.endpoint, [route.stream])
      else list.push(route.stream)
    }
    for (const [endpoint, list] of targets) endpoint.write(list, cells, urgent)
  }

  pace(stream: StreamId, pace: Pace): void {
    const route = this.#routes.get(stream)
    route?.endpoint.pace(route.stream, pace)
  }

  known(stream: StreamId): void {
    const route = this.#routes.get(stream)
    route?.endpoint.known(route.stream)
  }

  pacing(): readonly PacingCounts[] {
    return this.#endpoints.flatMap(({ pacing }) => pacing ?? [])
  }

  end(stream: StreamId): void {
    if (this.#early !== undefined) {
      this.#early.push(() => this.end(stream))
      return
    }
    const route = this.#routes.get(stream)
    this.#routes.delete(stream)
    route?.endpoint.end(route.stream)
  }

  async renew(certificate: Certificate): Promise<void> {
    checkCertificate(certificate)
    const before = this.#renewing
    const renewed = (async () => {
      await before.catch(() => {})
      for (const endpoint of this.#endpoints) if (!this.#stopped) await endpoint.renew(certificate)
    })()
    this.#renewing = renewed
    await renewed
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#renewing.catch(() => {})
    await Promise.all(this.#endpoints.map((endpoint) => endpoint.stop()))
  }

  #handlerAt(port: number): EndpointHandler {
    return {
      opened: (endpoint, stream, peer) => this.#opened(endpoint, stream, peer),
      received: (id, chunk) => this.#handler.received(id, chunk),
      closed: (id) => {
        this.#routes.delete(id)
        this.#handler.closed(id)
      },
      full: (address) => this.#options.full?.(address, this.#limit),
      log: (message, detail) => this.#options.log?.(message, { port, detail }),
    }
  }

  #opened(endpoint: QuicEndpoint, stream: StreamNumber, peer: Peer): void {
    const early: (() => void)[] = []
    this.#early = early
    const id = this.#handler.opened({ ...peer, endpoint: { port: endpoint.port, ports: this.ports } })
    this.#early = undefined
    if (id === undefined) endpoint.refuse(stream)
    else {
      endpoint.accept(stream, id, peer.proxy)
      this.#routes.set(id, { endpoint, stream })
    }
    for (const action of early) action()
  }

  get #limit(): FullTransport {
    return { limit: 'quicPerEndpoint', value: this.#options.maxSessions ?? MAX_SESSIONS }
  }
}

function checkAuthority(pem: string | undefined): void {
  if (pem === undefined) return
  let isAuthority = false
  try {
    isAuthority = new X509Certificate(pem).ca
  } catch (cause) {
    throw StaticError.of('invalid_request', 'The proxy CA is not a PEM certificate.', { cause })
  }
  if (!isAuthority) throw StaticError.of('invalid_request', 'The proxy CA is not a CA certificate.')
}

function checkCertificate({ cert, key }: Certificate): void {
  let pair = false
  try {
    pair = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))
  } catch (cause) {
    throw StaticError.of('invalid_request', 'The certificate or its key is not valid PEM.', { cause })
  }
  if (!pair) throw StaticError.of('invalid_request', 'The certificate and the key do not match.')
}
