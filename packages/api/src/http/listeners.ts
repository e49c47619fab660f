/** The listening sockets of one web server: two if the host is `localhost`, which means both loopback addresses. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createSecureContext, type SecureContext, type TlsOptions } from 'node:tls'
import type { FastifyServerFactoryHandler } from 'fastify'
import type { App } from './app.ts'
import { type Certificate, type makeServer, tlsOptions } from './listener.ts'

type Server = ReturnType<typeof makeServer>

type MakeServer = (handler: FastifyServerFactoryHandler, tls: TlsOptions | undefined) => Server

/** What a server presents: the named certificate to clients that name the host in the handshake, the other to the rest. */
export interface Certificates {
  readonly certificate: Certificate
  readonly namedCertificate: Certificate
}

export class Listeners {
  readonly #make: MakeServer
  readonly #servers: Server[] = []
  readonly #tls: TlsOptions | undefined
  #named: SecureContext | undefined
  #handler: FastifyServerFactoryHandler | undefined

  /** Without certificates the servers speak plain HTTP. */
  constructor(certificates: Certificates | undefined, make: MakeServer) {
    this.#make = make
    if (certificates === undefined) return
    this.#named = createSecureContext(tlsOptions(certificates.namedCertificate))
    this.#tls = {
      ...tlsOptions(certificates.certificate),
      SNICallback: (_name, done) => done(null, this.#named),
    }
  }

  /** Creates the server that Fastify listens with and closes. */
  first(handler: FastifyServerFactoryHandler): Server {
    this.#handler = handler
    return this.#add(handler)
  }

  /** Listens; `localhost` means both loopback addresses. Resolves to the port. */
  async listen(app: App, host: string, port: number): Promise<number> {
    // Fastify logs `http://` for every server that it did not create itself.
    const listenTextResolver = (at: string): string => `listening on ${at.replace(/^https?:\/\//, '')}`
    await app.listen({ host: host === 'localhost' ? '127.0.0.1' : host, port, listenTextResolver })
    const bound = (app.server.address() as AddressInfo).port
    if (host === 'localhost' && this.#handler) await listenOnIpv6(this.#add(this.#handler), bound)
    return bound
  }

  /**
   * Uses new certificates for new connections.
   *
   * @throws if certificate and key do not match; the old ones stay in use
   */
  renew({ certificate, namedCertificate }: Certificates): void {
    const named = createSecureContext(tlsOptions(namedCertificate))
    for (const server of this.#servers) {
      if ('setSecureContext' in server) server.setSecureContext(tlsOptions(certificate))
    }
    this.#named = named
  }

  /** Closes every connection, even with requests pending. */
  destroyConnections(): void {
    for (const server of this.#servers) server.closeAllConnections()
  }

  /** Closes the second server; Fastify closes the first. */
  async closeSecond(): Promise<void> {
    const [, second] = this.#servers
    if (!second?.listening) return
    const closed = once(second, 'close')
    second.close()
    second.closeIdleConnections()
    await closed
  }

  #add(handler: FastifyServerFactoryHandler): Server {
    const server = this.#make(handler, this.#tls)
    this.#servers.push(server)
    return server
  }
}

/** Also listens on the IPv6 loopback address, if the machine has one: otherwise another local user could. */
async function listenOnIpv6(server: Server, port: number): Promise<void> {
  try {
    server.listen(port, '::1')
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRNOTAVAIL' && code !== 'EAFNOSUPPORT') throw error
  }
}
