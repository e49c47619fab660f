/** The sockets of the web server: TLS 1.3, timeouts, and a connection limit per address. */
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server as HttpServer,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { SecureContextOptions, TlsOptions } from 'node:tls'
import type { FastifyServerFactoryHandler } from 'fastify'
import { subjectOf } from '@static/node/address'
import type { Balancers } from '@static/node/balancers'
import { takeTurns } from '@static/node/handshake-turns'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { networkLimit, networkOf, StaticError } from '@static/protocol'
import { newId } from '../rules/id.ts'
import type { Settings } from '../settings.ts'
import { Places } from './places.ts'
import { PROBLEM_TYPE, problemOf } from './problem.ts'

/** A certificate with its chain, and its private key, as PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

const MAX_HEADER_BYTES = 16 * 1024
const KEEP_ALIVE_MS = 65_000
const HOST = 'host'

/** Unanswered requests per connection, which bounds the memory of a client that does not read its responses. */
const MOST_PIPELINED = 16

/** TLS options, for the first certificate and for renewed ones. */
export function tlsOptions(certificate: Certificate): SecureContextOptions {
  return { ...certificate, minVersion: 'TLSv1.3', ecdhCurve: TLS_GROUPS }
}

/** Creates a server; without TLS options it serves plain HTTP. */
export function makeServer(
  handler: FastifyServerFactoryHandler,
  settings: Settings['http'],
  tls: TlsOptions | undefined,
  balancers: Balancers,
  apiUrl: () => string,
  rateHeaders: (subject: string) => Record<string, string>,
): HttpServer | HttpsServer {
  const headers = (socket: Socket): Record<string, string> => rateHeaders(subjectOf(balancers.addressOf(socket)))
  const options: ServerOptions = {
    headersTimeout: settings.headersSeconds * 1000,
    requestTimeout: settings.requestSeconds * 1000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    noDelay: true,
    // Node's own error response would lack the API's headers, so `requireHost` refuses instead.
    requireHostHeader: false,
  }
  const places = new Places(settings.connections)
  const listener = capPipelining(requireHost(handler, apiUrl, headers), places)
  const handshakeTimeout = settings.headersSeconds * 1000
  const server = tls
    ? createHttpsServer({ ...options, ...tls, handshakeTimeout }, listener)
    : createHttpServer(options, listener)
  // Also ends connections of clients that do not read their responses.
  server.timeout = settings.requestSeconds * 1000
  // Connections that gave way count until they are closed.
  server.maxConnections = 2 * settings.connections
  const cap = capPerAddress(settings, places)
  takeTurns(server, (socket) => {
    const client = balancers.clientOf(socket)
    if (typeof client === 'string') return cap(socket, client)
    return client.then((address) => (address === undefined ? undefined : cap(socket, address)))
  })
  // Without a listener, Node responds to an unknown `Expect` header without the API's headers. The header is ignored.
  server.on('checkExpectation', listener)
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => refuse(error, socket as Socket, apiUrl(), headers))
  return server
}

/** Limits the connections per address and per /48, so that one client cannot use up all sockets. */
function capPerAddress(
  { connections, connectionsPerAddress }: Settings['http'],
  places: Places,
): (socket: Socket, client: string) => string | undefined {
  const open = new Map<string, number>()
  const count = (key: string, change: number): void => {
    const left = (open.get(key) ?? 0) + change
    if (left === 0) open.delete(key)
    else open.set(key, left)
  }
  return (socket, client) => {
    const address = subjectOf(client)
    const network = networkOf(address)
    const mostOfNetwork = networkLimit(connectionsPerAddress, connections)
    const isCrowded = network !== undefined && (open.get(network) ?? 0) >= mostOfNetwork
    const isOver = isCrowded || (open.get(address) ?? 0) >= connectionsPerAddress
    if (isOver || !places.take(socket, address)) {
      socket.destroy()
      return undefined
    }
    const keys = network === undefined ? [address] : [address, network]
    for (const key of keys) count(key, 1)
    socket.once('close', () => {
      for (const key of keys) count(key, -1)
    })
    return address
  }
}

const UNANSWERED = Symbol('unanswered requests')

/** Disconnects clients that send requests but read no responses: Node keeps reading while responses are pending. */
function capPipelining(handler: RequestListener, places: Places): RequestListener {
  type Counted = Socket & { [UNANSWERED]?: number }
  function answered(this: ServerResponse): void {
    const socket: Counted = this.req.socket
    const left = (socket[UNANSWERED] ?? 1) - 1
    socket[UNANSWERED] = left
    if (left === 0) places.idle(socket)
  }
  return (request, response) => {
    const socket: Counted = request.socket
    const count = (socket[UNANSWERED] ?? 0) + 1
    if (count > MOST_PIPELINED) {
      // Bytes already read may contain more requests, which arrive here as well.
      socket.destroy()
      return
    }
    socket[UNANSWERED] = count
    if (count === 1) places.busy(socket)
    // A response closes only once, so `on` suffices: `once` would cost a wrapper around the listener and its removal.
    response.on('close', answered)
    handler(request, response)
  }
}

/** Refuses HTTP/1.1 requests without a Host header, and any request with more than one (RFC 9112, 3.2). */
function requireHost(
  handler: FastifyServerFactoryHandler,
  apiUrl: () => string,
  headers: (socket: Socket) => Record<string, string>,
): RequestListener {
  return (request, response) => {
    const fault = hostFault(request)
    if (fault === undefined) return handler(request, response)
    const requestId = newId(Date.now())
    const refusal = StaticError.of('invalid_request', fault)
    const body = JSON.stringify(problemOf(refusal, requestId, apiUrl()))
    response.writeHead(refusal.httpStatus, {
      'content-type': PROBLEM_TYPE,
      'content-length': Buffer.byteLength(body),
      'x-request-id': requestId,
      ...headers(request.socket),
      connection: 'close',
    })
    response.end(body)
  }
}

function hostFault({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let hosts = 0
  // Node keeps only the first of several in `headers`. The length is compared first, because this runs on every
  // request.
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === HOST.length && name.toLowerCase() === HOST) hosts++
  }
  if (hosts > 1) return `The request has ${hosts} Host headers. Send exactly one.`
  return hosts === 0 && httpVersion === '1.1' ? 'The Host header is missing. HTTP/1.1 requires it.' : undefined
}

/** Responds to input that never became a request: not HTTP, headers too long or too slow. */
function refuse(
  error: NodeJS.ErrnoException,
  socket: Socket,
  apiUrl: string,
  headers: (socket: Socket) => Record<string, string>,
): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, reason]: [number, string] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout']
        : [400, 'Bad Request']
  const requestId = newId(Date.now())
  const refusal = StaticError.of('invalid_request', `The request is malformed: ${reason}.`)
  const body = JSON.stringify(problemOf(refusal, requestId, apiUrl, status))
  socket.end(
    [
      `HTTP/1.1 ${status} ${reason}`,
      `content-type: ${PROBLEM_TYPE}`,
      `content-length: ${Buffer.byteLength(body)}`,
      `x-request-id: ${requestId}`,
      ...Object.entries(headers(socket)).map(([name, value]) => `${name}: ${value}`),
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}
