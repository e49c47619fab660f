/**
 * Starts TLS handshakes in turns. A handshake costs about a millisecond of the thread that serves everyone: a thousand
 * that arrive at once would stop all others for a second. So only a few begin in one turn of the event loop, of each
 * address in turn. Those that wait cost a socket, which the limits of connections bound, and nothing is read from them.
 */
import type { Server, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { Turns } from './turns.ts'

/** Handshakes that begin in one turn of the event loop. */
const PER_TURN = 2

type Listener = (this: Server, socket: Socket) => void

/**
 * Decides over a connection before its handshake: the address that limits count, or undefined if it was refused. May
 * take its time.
 */
export type Admit = (socket: Socket) => string | undefined | Promise<string | undefined>

/** Makes a server, which may also be one of plain HTTP, take turns with the connections that are admitted. */
export function takeTurns(server: Server, admit: Admit): void {
  // The first listener is the server's own, which begins the handshake.
  const [handshake] = server.listeners('connection') as Listener[]
  if (!handshake) throw new Error('The server has no handshake to begin.')
  server.removeListener('connection', handshake)
  Object.assign(server, { pauseOnConnect: true })
  const turns = new Turns<Socket>({
    perTurn: PER_TURN,
    run: (socket) => {
      handshake.call(server, socket)
      // TLS reads from the handle itself.
      if (!(server instanceof TlsServer)) socket.resume()
    },
    isGone: ({ destroyed }) => destroyed,
    nextTurn: setImmediate,
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
