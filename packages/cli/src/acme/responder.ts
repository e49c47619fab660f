/** Answers the challenges `http-01` of an ACME authority (RFC 8555, 8.3): over plain HTTP, while a certificate is ordered. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isErrno } from '@static/node/files'
import { listenError } from '@static/node/listen-error'

const PATH = '/.well-known/acme-challenge/'
/** Authorities ask from a few places at once. Everything else that comes here is not meant for this server. */
const MOST_CONNECTIONS = 64
const MOST_HEADER_BYTES = 8 * 1024
const REQUEST_MS = 10_000

export interface Responder {
  readonly port: number
  /** Answers requests for a token from now on. */
  answer(token: string, keyAuthorization: string): void
  close(): Promise<void>
}

/**
 * Listens on all addresses.
 *
 * @throws {StaticError} `connection_error` if it cannot listen on the port
 */
export async function startResponder(port: number): Promise<Responder> {
  const answers = new Map<string, string>()
  const server = createServer({
    maxHeaderSize: MOST_HEADER_BYTES,
    headersTimeout: REQUEST_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: 1_000,
    keepAlive: false,
  })
  server.maxConnections = MOST_CONNECTIONS
  server.timeout = REQUEST_MS
  server.on('request', ({ method, url = '' }, response) => {
    const found = method === 'GET' && url.startsWith(PATH) ? answers.get(url.slice(PATH.length)) : undefined
    response.writeHead(found === undefined ? 404 : 200, { 'content-type': 'text/plain', connection: 'close' })
    response.end(found)
  })
  await listen(server, port)
  return {
    port: (server.address() as AddressInfo).port,
    answer: (token, keyAuthorization) => void answers.set(token, keyAuthorization),
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

async function listen(server: Server, port: number): Promise<void> {
  // `::` means IPv4 as well, but a machine may have no IPv6.
  for (const host of ['::', '0.0.0.0']) {
    try {
      server.listen(port, host)
      await once(server, 'listening')
      return
    } catch (error) {
      const hasNoIpv6 = isErrno(error, 'EAFNOSUPPORT') || isErrno(error, 'EADDRNOTAVAIL')
      if (host === '::' && hasNoIpv6) continue
      throw listenError(`port ${port} for --acme`, (error as NodeJS.ErrnoException).code ?? String(error), error)
    }
  }
}
