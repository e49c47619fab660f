/** A port for parts: HTTP/1.1 and HTTP/2 with TLS 1.3, and the limits of its connections. */
import { once } from 'node:events'
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { isIP, type Socket } from 'node:net'
import { createSecureContext, type SecureContextOptions, type TlsOptions, TLSSocket } from 'node:tls'
import { plainAddress, subjectOf } from '@static/node/address'
import { Balancers } from '@static/node/balancers'
import { takeTurns } from '@static/node/handshake-turns'
import type { Certificate } from '../ports.ts'
import { Connections, HTTP2_LIMITS, type Http2Limits, serverOptions } from '../transport/http2/limits.ts'
import { listen, tlsOptions } from '../transport/http2/listener.ts'
import type { HttpRequest } from '../transport/http2/plain.ts'
import type { HttpResponse } from '../transport/http2/responses.ts'
import { AGENT_ADDRESS } from './part-request.ts'

/** How long all of a body may take. */
export const TOTAL_MS = 600_000

/** An agent needs one connection, and few agents transfer at once. */
const LIMITS: Http2Limits = {
  ...HTTP2_LIMITS,
  connections: 2000,
  connectionsPerAddress: 128,
  streams: 16,
  bodyMs: TOTAL_MS,
}

/** Options of the port. */
export interface PartServerOptions {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  readonly certificate: Certificate
  /** For clients that send a server name. */
  readonly namedCertificate: Certificate
  readonly proxyProtocolFrom: readonly string[]
  /** CA of the client certificates of stand-alone proxies, which name the addresses of their agents. */
  readonly proxyCa?: string | undefined
  /** Receives internal failures. */
  readonly failed: (error: unknown) => void
}

/** Answers one request from an address, as limits count it. */
export type PartHandler = (request: HttpRequest, response: HttpResponse, address: string) => Promise<void>

/** An open port. */
export interface PartServer {
  readonly port: number
  renew(certificate: Certificate, namedCertificate: Certificate): void
  stop(): Promise<void>
}

/** Opens the port. Throws `connection_error` if an address is in use. */
export async function startPartServer(options: PartServerOptions, handler: PartHandler): Promise<PartServer> {
  const { proxyCa } = options
  const balancers = new Balancers(options.proxyProtocolFrom)
  const connections = new Connections(LIMITS, { cut: () => {}, full: () => {} }, balancers)
  const secured = (certificate: Certificate): SecureContextOptions => ({
    ...tlsOptions(certificate),
    ...(proxyCa === undefined ? {} : { ca: proxyCa }),
  })
  // Agents have no certificate, and are not asked for a reason.
  const asking = proxyCa === undefined ? {} : { requestCert: true, rejectUnauthorized: false }
  let named = createSecureContext(secured(options.namedCertificate))
  const SNICallback: TlsOptions['SNICallback'] = (_name, done) => done(null, named)
  const answer = async (request: HttpRequest, response: HttpResponse): Promise<void> => {
    if (!('stream' in request) && !connections.admitPipelined(request.socket, response)) return
    if (connections.fullFor(request.socket)) {
      response.destroy()
      return
    }
    const address = agentBehind(request) ?? balancers.addressOf(request.socket)
    await handler(request, response, subjectOf(address))
  }
  // One request that fails in a way that nobody has foreseen must not end the thread, and with it all others.
  const handle = (request: HttpRequest, response: HttpResponse): void => {
    answer(request, response).catch((error: unknown) => {
      options.failed(error)
      response.destroy()
    })
  }
  const make = (): Http2SecureServer => {
    const server = createSecureServer({
      ...serverOptions(LIMITS),
      ...secured(options.certificate),
      ...asking,
      SNICallback,
    })
      .on('session', (session) => connections.watch(session))
      .on('request', handle as (request: Http2ServerRequest, response: Http2ServerResponse) => void)
    takeTurns(server, (socket) => connections.admit(socket))
    return server
  }
  const { port, servers } = await listen(options.host, options.port, make)
  for (const server of servers) server.on('error', options.failed)
  return {
    port,
    renew(certificate, namedCertificate) {
      const fresh = createSecureContext(secured(namedCertificate))
      for (const server of servers) server.setSecureContext(secured(certificate))
      named = fresh
    },
    async stop() {
      const closed = servers.map((server) => once(server, 'close'))
      for (const server of servers) server.close()
      connections.leave()
      const late = setTimeout(() => connections.destroy(), LIMITS.closeMs)
      await Promise.all(closed)
      clearTimeout(late)
    },
  }
}

/** The agent's address, if a proxy has sent the request; proxies speak HTTP/1.1. */
function agentBehind(request: HttpRequest): string | undefined {
  if ('stream' in request || !isProxy(request.socket)) return undefined
  const address = request.headers[AGENT_ADDRESS]
  return typeof address === 'string' && isIP(address) !== 0 ? plainAddress(address) : undefined
}

/**
 * Whether the peer has shown a certificate of the proxies' authority in this very handshake: Node counts a resumed
 * session as authorized even if none was ever shown.
 */
function isProxy(socket: Socket): boolean {
  if (!(socket instanceof TLSSocket) || !socket.authorized || socket.isSessionReused()) return false
  return socket.getPeerX509Certificate() !== undefined
}
