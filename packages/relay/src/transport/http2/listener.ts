/** The listening sockets of a port: IPv4 and IPv6 on the same number. */
import { once } from 'node:events'
import type { Http2SecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import { listenError } from '@static/node/listen-error'
import { TLS_GROUPS } from '@static/node/tls-groups'
import type { Certificate } from '../../ports.ts'

/** A port that is free on one address may be in use on the other. */
const MOST_TRIES = 10

/** TLS options of every connection, even after a certificate was renewed. */
export function tlsOptions(certificate: Certificate): SecureContextOptions {
  return { cert: certificate.cert, key: certificate.key, minVersion: 'TLSv1.3', ecdhCurve: TLS_GROUPS }
}

/** Servers that listen on the same port. */
export interface Listeners {
  readonly port: number
  readonly servers: readonly Http2SecureServer[]
}

/**
 * Listens on a host: `localhost` is both loopback addresses, `0.0.0.0` and `::` are all addresses. IPv6 is skipped if
 * the machine has none. Port 0 picks a free one.
 *
 * @throws {StaticError} `connection_error` if an address is in use
 */
export async function listen(host: string, port: number, make: () => Http2SecureServer): Promise<Listeners> {
  const [first, second] = addressesOf(host)
  for (let tries = 1; ; tries++) {
    const main = make()
    const servers = [main]
    try {
      await bind(main, first, port)
      const { port: bound } = main.address() as AddressInfo
      if (second !== undefined) {
        const other = make()
        if (await bindIfPresent(other, second, bound)) servers.push(other)
      }
      return { port: bound, servers }
    } catch (cause) {
      for (const server of servers) server.close()
      const { code } = cause as NodeJS.ErrnoException
      if (code === 'EADDRINUSE' && port === 0 && tries < MOST_TRIES) continue
      throw listenError(`${host} port ${port}`, code ?? 'unknown error', cause)
    }
  }
}

function addressesOf(host: string): readonly [string, string?] {
  if (host === 'localhost') return ['127.0.0.1', '::1']
  return host === '0.0.0.0' || host === '::' ? ['0.0.0.0', '::'] : [host]
}

async function bind(server: Http2SecureServer, host: string, port: number): Promise<void> {
  server.listen({ host, port, ipv6Only: host === '::' })
  await once(server, 'listening')
}

async function bindIfPresent(server: Http2SecureServer, host: string, port: number): Promise<boolean> {
  try {
    await bind(server, host, port)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRNOTAVAIL' && code !== 'EAFNOSUPPORT') throw error
    return false
  }
}
