/**
 * The relay's TCP port: native gRPC, gRPC-Web, Connect, `/health` and `/metrics` on one TLS 1.3 socket. Sessions and
 * native subscriptions are framed here; other calls go through the RPC library.
 */
import { once } from 'node:events'
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { createSecureContext, type TlsOptions } from 'node:tls'
import { takeTurns } from '@static/node/handshake-turns'
import { subjectOf } from '@static/node/address'
import { Balancers } from '@static/node/balancers'
import { Relay } from '@static/protocol/relay'
import type { PacingCounts } from '../../session/pacing.ts'
import type { CallHandler, Certificate, Health, Peer, StreamHandler, Transport } from '../../ports.ts'
import { SessionStreams } from './session.ts'
import { isNativeGrpc } from './stream.ts'
import { Subscriptions } from './subscribe.ts'
import { CALL_BYTES, CallBudget, type Holding } from '../http2/budget.ts'
import { type ConnectionLog, Connections, HTTP2_LIMITS, type Http2Limits, serverOptions } from '../http2/limits.ts'
import { listen, tlsOptions } from '../http2/listener.ts'
import type { MetricsSource } from '../http2/metrics.ts'
import { answerNotFound, answerProbe, type HttpRequest, makePlainHandler } from '../http2/plain.ts'
import { cutOff, expire, type HttpResponse, isClosed } from '../http2/responses.ts'
import { makeUnaryHandler, type UnaryHandler } from './unary/calls.ts'

export interface GrpcOptions {
  /** `localhost` means both loopback addresses, `0.0.0.0` and `::` all addresses. */
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  readonly certificate: Certificate
  /** Separate certificate for clients that send a server name (SNI). */
  readonly namedCertificate?: Certificate | undefined
  /** Origins whose pages may call from a browser. */
  readonly origins: readonly string[]
  readonly health: () => Health
  /** The content of `/metrics`, if any. */
  readonly metrics?: MetricsSource
  readonly limits?: Partial<Http2Limits>
  /** The load balancers in front of the port. */
  readonly balancers?: Balancers
  readonly log?: GrpcLog
}

/** Events to log. */
export interface GrpcLog extends ConnectionLog {
  /** An internal failure. */
  readonly failed: (error: unknown) => void
}

export interface GrpcTransport extends Transport {
  readonly port: number
  /** Counts of the sessions' clocks. */
  pacing(): readonly PacingCounts[]
  /**
   * Uses new certificates for connections from now on.
   *
   * @throws if certificate and key do not match; the old ones stay in use
   */
  renew(certificate: Certificate, namedCertificate?: Certificate): void
}

const SILENT: GrpcLog = { cut: () => {}, full: () => {}, failed: () => {} }
const SESSION_PATH = `/${Relay.typeName}/${Relay.method.session.name}`
const SUBSCRIBE_PATH = `/${Relay.typeName}/${Relay.method.subscribe.name}`

/**
 * Opens the port.
 *
 * @throws {StaticError} `connection_error` if an address is in use
 */
export async function startGrpcTransport(
  options: GrpcOptions,
  streams: StreamHandler,
  calls: CallHandler,
): Promise<GrpcTransport> {
  const limits = { ...HTTP2_LIMITS, ...options.limits }
  const { health, balancers = new Balancers(), log = SILENT } = options
  const stopping = new AbortController()
  const connections = new Connections(limits, log, balancers)
  const sessions = new SessionStreams(streams, limits)
  const subscriptions = new Subscriptions(calls, limits)
  const callMethod = makeUnaryHandler({ calls, health, limits, stopping: stopping.signal, failed: log.failed })

  const handle = requestHandler({ options, limits, balancers, connections, sessions, subscriptions, callMethod })
  const { certificate: first, namedCertificate = first } = options
  let named = createSecureContext(tlsOptions(namedCertificate))
  const SNICallback: TlsOptions['SNICallback'] = (_name, done) => done(null, named)
  const makeServer = (): Http2SecureServer => {
    const server = createSecureServer({ ...serverOptions(limits), ...tlsOptions(first), SNICallback })
      .on('session', (session) => connections.watch(session))
      .on('request', handle as (request: Http2ServerRequest, response: Http2ServerResponse) => void)
    takeTurns(server, (socket) => connections.admit(socket))
    return server
  }
  const { port, servers } = await listen(options.host, options.port, makeServer)
  for (const server of servers) server.on('error', log.failed)

  return {
    port,
    write: (ids, cells, urgent = false) => sessions.write(ids, cells, urgent),
    pace: (id, pace) => sessions.pace(id, pace),
    pacing: () => [sessions.pacing],
    end: (id) => sessions.end(id),
    renew(certificate, namedCertificate = certificate) {
      const fresh = createSecureContext(tlsOptions(namedCertificate))
      for (const server of servers) server.setSecureContext(tlsOptions(certificate))
      named = fresh
    },
    async stop() {
      const closed = servers.map((server) => once(server, 'close'))
      for (const server of servers) server.close()
      stopping.abort()
      sessions.endAll()
      subscriptions.endAll()
      connections.leave()
      const late = setTimeout(() => connections.destroy(), limits.closeMs)
      await Promise.all(closed)
      clearTimeout(late)
    },
  }
}

/** The handlers of requests. */
interface Destinations {
  readonly options: GrpcOptions
  readonly limits: Http2Limits
  readonly balancers: Balancers
  readonly connections: Connections
  readonly sessions: SessionStreams
  readonly subscriptions: Subscriptions
  readonly callMethod: UnaryHandler
}

/** Routes every request to its handler. */
function requestHandler({
  options,
  limits,
  balancers,
  connections,
  sessions,
  subscriptions,
  callMethod,
}: Destinations): (request: HttpRequest, response: HttpResponse) => void {
  const budget = new CallBudget(limits.bodyBytes, limits.bodyBytesPerAddress)
  const { health, metrics, origins, log = SILENT } = options
  const answerPlain = makePlainHandler({ health, metrics, origins, failed: log.failed })
  /** A connection has one peer, but HTTP/1.1 and HTTP/2 keep it in different places. */
  const peerOf = ({ socket }: HttpRequest): Peer => {
    const full = connections.fullFor(socket)
    const address = balancers.addressOf(socket)
    return { transport: 'grpc', form: 'protobuf', address, proxy: false, ...(full && { full }) }
  }
  /** Reserves memory for a request until its response is closed. */
  const hold = async (response: HttpResponse, { address }: Peer): Promise<Holding | undefined> => {
    const holding = budget.open(subjectOf(address), () => cutOff(response))
    response.once('close', () => holding.close())
    return (await holding.takeSoon(CALL_BYTES)) ? holding : undefined
  }
  const subscribe = async (request: Http2ServerRequest, response: HttpResponse): Promise<void> => {
    const peer = peerOf(request)
    const holding = await hold(response, peer)
    if (holding === undefined) cutOff(response)
    else if (!isClosed(response)) subscriptions.accept(request.stream, request.headers, peer, holding)
  }
  const reply = async (request: HttpRequest, response: HttpResponse, path: string): Promise<void> => {
    const peer = peerOf(request)
    const holding = await hold(response, peer)
    if (isClosed(response)) return
    if (holding === undefined) {
      if (!answerProbe(path, request, response, health())) cutOff(response)
      return
    }
    if (!answerPlain(path, request, response, balancers.isLocal(request.socket))) {
      if (callMethod(path, request, response, peer, holding)) return
      answerNotFound(response)
    }
    expire(response, limits.bodyMs)
  }
  return (request, response) => {
    if ('stream' in request) {
      // Reset before it was handled, as in a flood of resets.
      if (request.stream.closed || request.stream.destroyed) return
    } else if (!connections.admitPipelined(request.socket, response)) {
      return
    }
    const { method, headers, url = '' } = request
    const [path = ''] = url.split('?', 1)
    if (method === 'POST' && 'stream' in request && isNativeGrpc(headers)) {
      if (path === SESSION_PATH) return sessions.accept(request.stream, headers, peerOf(request))
      if (path === SUBSCRIBE_PATH) return void subscribe(request, response)
    }
    if (!('stream' in request)) return void reply(request, response, path)
    // After the other frames that have arrived: in a flood of resets, this stream's reset is among them.
    const { stream } = request
    setImmediate(() => {
      if (!stream.closed && !stream.destroyed) void reply(request, response, path)
    })
  }
}
