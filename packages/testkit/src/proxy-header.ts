/** Headers of the PROXY protocol, version 2, and TLS connections that begin with them, as a balancer makes them. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')

/** A header with these bytes after its prefix; the length may lie. */
export function rawProxyHeader(
  command: number,
  family: number,
  rest: Uint8Array,
  length: number = rest.length,
): Buffer {
  return Buffer.concat([SIGNATURE, Buffer.of(0x20 | command, family, length >> 8, length & 0xff), rest])
}

/** The header for a connection of an IPv4 client, with extra bytes about the connection that no one needs. */
export function proxyHeader(client: string, more = 0): Buffer {
  const ends = Buffer.of(...client.split('.').map(Number), 192, 0, 2, 1, 0x30, 0x39, 0x01, 0xbb)
  return rawProxyHeader(1, 0x11, Buffer.concat([ends, Buffer.alloc(more)]))
}

export interface BalancedOptions {
  readonly port: number
  readonly ca: string
  /** Parts in which the first bytes are sent; each waits until the one before was written. */
  readonly parts: readonly Uint8Array[]
  readonly localAddress?: string
  /** The protocol over it; HTTP/1.1 by default. */
  readonly protocol?: string
}

/** Connects, sends the parts, and begins TLS. Rejects if the server closes the connection instead. */
export async function connectBalanced({
  port,
  ca,
  parts,
  localAddress,
  protocol = 'http/1.1',
}: BalancedOptions): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', ...(localAddress === undefined ? {} : { localAddress }) })
  socket.setNoDelay(true)
  await once(socket, 'connect')
  for (const part of parts) await new Promise((resolve) => socket.write(part, resolve))
  const tls = connectTls({ socket, ca, servername: 'localhost', ALPNProtocols: [protocol] })
  await Promise.race([
    once(tls, 'secureConnect'),
    once(socket, 'close').then(() => {
      throw new Error('The server closed the connection.')
    }),
  ])
  return tls
}

/** Asks over an open connection; resolves to the whole answer. */
export async function askOver(socket: TLSSocket, path: string, headers = ''): Promise<string> {
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n${headers}\r\n`)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await once(socket, 'close')
  return Buffer.concat(chunks).toString()
}
