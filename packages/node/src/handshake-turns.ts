/**
 * Starts TLS handshakes in turns. A handshake takes about a millisecond of the thread that serves everyone, and leads to
 * more work, so a thousand arriving at once would block all others for seconds. One begins at a time, and the next once
 * the thread has had a moment to spare, with addresses taking turns. A waiting connection costs a socket, which the
 * connection limits bound, and nothing is read from it.
 */
import type { Server, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { atIdleMoment } from './idle-moment.ts'
import { Turns } from './turns.ts'

type Listener = (this: Server, socket: Socket) => void

/**
 * Decides about a connection before its handshake: returns the address for limits, or undefined if it was refused. May
 * be slow.
 */
export type Admit = (socket: Socket) => string | undefined | Promise<string | undefined>

/** Makes a server (TLS or plain HTTP) take turns with the admitted connections. */
export function takeTurns(server: Server, admit: Admit, nextTurn: (act: () => void) => void = atIdleMoment): void {
  // The first listener is the server's own, which begins the handshake.
  const [handshake] = server.listeners('connection') as Listener[]
  if (!handshake) throw new Error('The server has no handshake to begin.')
  server.removeListener('connection', handshake)
  Object.assign(server, { pauseOnConnect: true })
  const turns = new Turns<Socket>({
    perTurn: 1,
    run: (socket) => {
      handshake.call(server, socket)
      // TLS reads from the handle itself.
      if (!(server instanceof TlsServer)) socket.resume()
    },
    isGone: ({ destroyed }) => destroyed,
    nextTurn,
  })
  const begin = (socket: Socket, address: string | undefined): void => {
    if (address !== undefined && !socket.destroyed) turns.add(address, socket)
  }
  server.on('connection', (socket: Socket) => {
    const admitted = admit(socket)
    if (admitted instanceof Promise) void admitted.then((address) => begin(socket, address))
    else begin(socket, admitted)
  })
}
