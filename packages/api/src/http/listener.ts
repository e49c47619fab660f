/** The sockets under the web server: TLS 1.3, time limits, and a cap per address. */
import {
  createServer as createHttpServer,
  type RequestListener,
  type Server as HttpServer,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import type { FastifyServerFactoryHandler } from 'fastify'
import { subjectOf } from '@static/node/address'
import { StaticError } from '@static/protocol'
import { newId } from '../rules/id.ts'
import type { Settings } from '../settings.ts'
import { PROBLEM_TYPE, problemOf } from './problem.ts'

/** A certificate with its chain, and its private key, as PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

const CURVES = 'X25519:P-256:P-384'
const MAX_HEADER_BYTES = 16 * 1024
const KEEP_ALIVE_MS = 65_000

/** So many requests may be unanswered on one connection; a sender that reads no answers holds that much memory. */
const MOST_PIPELINED = 16

/** What every connection is held to, with the first certificate and with those that follow. */
export function tlsOptions(certificate: Certificate): SecureContextOptions {
  return { ...certificate, minVersion: 'TLSv1.3', ecdhCurve: CURVES }
}

/** Makes a server; without a certificate it speaks plain HTTP. */
export function makeServer(
  handler: FastifyServerFactoryHandler,
  settings: Settings['http'],
  certificate: Certificate | undefined,
  apiUrl: () => string,
  headers: (address: string) => Record<string, string>,
): HttpServer | HttpsServer {
  const options: ServerOptions = {
    headersTimeout: settings.headersSeconds * 1000,
    requestTimeout: settings.requestSeconds * 1000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    noDelay: true,
    // Nothing here depends on the Host header, and Node's own refusal would lack our headers.
    requireHostHeader: false,
  }
  const listener = capPipelining(handler)
  const handshakeTimeout = settings.headersSeconds * 1000
  const server = certificate
    ? createHttpsServer({ ...options, ...tlsOptions(certificate), handshakeTimeout }, listener)
    : createHttpServer(options, listener)
  // Also of a reader that takes nothing.
  server.timeout = settings.requestSeconds * 1000
  server.maxConnections = settings.connections
  capPerAddress(server, settings.connectionsPerAddress)
  // Without a listener Node answers an unknown expectation by itself, without our headers; it need not be refused.
  server.on('checkExpectation', listener)
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => refuse(error, socket as Socket, apiUrl(), headers))
  return server
}

/** One address cannot take all sockets. */
function capPerAddress(server: HttpServer | HttpsServer, most: number): void {
  const open = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    const address = subjectOf(socket.remoteAddress ?? '')
    const count = (open.get(address) ?? 0) + 1
    if (count > most) {
      socket.destroy()
      return
    }
    open.set(address, count)
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1
      if (left === 0) open.delete(address)
      else open.set(address, left)
    })
  })
}

/** Where a connection's count of unanswered requests is kept. */
const UNANSWERED = Symbol('unanswered requests')

/** Node reads on while answers wait; whoever asks and asks without reading is cut off. */
function capPipelining(handler: FastifyServerFactoryHandler): RequestListener {
  type Counted = Socket & { [UNANSWERED]?: number }
  function answered(this: ServerResponse): void {
    const socket: Counted = this.req.socket
    socket[UNANSWERED] = (socket[UNANSWERED] ?? 1) - 1
  }
  return (request, response) => {
    const socket: Counted = request.socket
    const count = (socket[UNANSWERED] ?? 0) + 1
    if (count > MOST_PIPELINED) {
      // More requests may stand in the bytes that were read already: they end up here too.
      socket.destroy()
      return
    }
    socket[UNANSWERED] = count
    // It closes only once; `once` would wrap the listener and take it off again.
    response.on('close', answered)
    handler(request, response)
  }
}

/** Answers what never became a request: bytes that are not HTTP, headers too long or too slow. */
function refuse(
  error: NodeJS.ErrnoException,
  socket: Socket,
  apiUrl: string,
  headers: (address: string) => Record<string, string>,
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
  const refusal = StaticError.of('invalid_request', `The request is not well formed: ${reason}.`)
  const body = JSON.stringify(problemOf(refusal, requestId, apiUrl, status))
  socket.end(
    [
      `HTTP/1.1 ${status} ${reason}`,
      `content-type: ${PROBLEM_TYPE}`,
      `content-length: ${Buffer.byteLength(body)}`,
      `x-request-id: ${requestId}`,
      ...Object.entries(headers(subjectOf(socket.remoteAddress ?? ''))).map(([name, value]) => `${name}: ${value}`),
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}
