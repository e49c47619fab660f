/** A port at which PostgreSQL refuses TLS. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

/** A client's request for TLS: a length of 8, and 1234.5679. */
export const SSL_REQUEST: Buffer = Buffer.from('0000000804d2162f', 'hex')

/** The port, and the bytes that arrived at it. */
export interface PlainPort extends AsyncDisposable {
  readonly port: number
  heard(): Buffer
}

/** Opens it on loopback. */
export async function listenWithoutTls(): Promise<PlainPort> {
  const heard: Buffer[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}))
    socket.on('data', (bytes: Buffer) => {
      heard.push(bytes)
      socket.write('N')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    heard: () => Buffer.concat(heard),
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
