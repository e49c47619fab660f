/** The port of files: HTTP/1.1 and HTTP/2 with TLS 1.3, and the limits of its connections. */
import { once } from 'node:events'
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { createSecureContext, type TlsOptions } from 'node:tls'
import { subjectOf } from '@static/node/address'
import { Balancers } from '@static/node/balancers'
import { takeTurns } from '@static/node/handshake-turns'
import type { Certificate } from '../ports.ts'
import { Connections, HTTP2_LIMITS, type Http2Limits, serverOptions } from '../transport/http2/limits.ts'
import { listen, tlsOptions } from '../transport/http2/listener.ts'
import type { HttpRequest } from '../transport/http2/plain.ts'
import type { HttpResponse } from '../transport/http2/responses.ts'
import { TRANSFER_LIMITS, Transfers, type TransfersOptions } from './transfers.ts'

/** An agent needs one connection, and few agents transfer at once. */
const LIMITS: Http2Limits = {
  ...HTTP2_LIMITS,
  connections: 2000,
  connectionsPerAddress: 128,
  streams: 16,
  bodyMs: TRANSFER_LIMITS.totalMs,
}

/** Options of the port. */
export interface FilesServerOptions extends TransfersOptions {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  readonly certificate: Certificate
  /** For clients that send a server name. */
  readonly namedCertificate: Certificate
  readonly proxyProtocolFrom: readonly string[]
}

/** An open port of files. */
export interface FilesServer {
  readonly port: number
  readonly transfers: Transfers
  renew(certificate: Certificate, namedCertificate: Certificate): void
  stop(): Promise<void>
}

/** Opens the port. Throws `connection_error` if an address is in use. */
export async function startFilesServer(options: FilesServerOptions): Promise<FilesServer> {
  const transfers = new Transfers(options)
  const balancers = new Balancers(options.proxyProtocolFrom)
  const connections = new Connections(LIMITS, { cut: () => {}, full: () => {} }, balancers)
  let named = createSecureContext(tlsOptions(options.namedCertificate))
  const SNICallback: TlsOptions['SNICallback'] = (_name, done) => done(null, named)
  const handle = (request: HttpRequest, response: HttpResponse): void => {
    if (!('stream' in request) && !connections.admitPipelined(request.socket, response)) return
    if (connections.fullFor(request.socket)) {
      response.destroy()
      return
    }
    const address = subjectOf(balancers.addressOf(request.socket))
    void transfers.handle(request, response, address)
  }
  const make = (): Http2SecureServer => {
    const server = createSecureServer({ ...serverOptions(LIMITS), ...tlsOptions(options.certificate), SNICallback })
      .on('session', (session) => connections.watch(session))
      .on('request', handle as (request: Http2ServerRequest, response: Http2ServerResponse) => void)
    takeTurns(server, (socket) => connections.admit(socket))
    return server
  }
  const { port, servers } = await listen(options.host, options.port, make)
  for (const server of servers) server.on('error', options.failed)
  return {
    port,
    transfers,
    renew(certificate, namedCertificate) {
      const fresh = createSecureContext(tlsOptions(namedCertificate))
      for (const server of servers) server.setSecureContext(tlsOptions(certificate))
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
