/**
 * Starts TLS handshakes in turns. A handshake costs about a millisecond of the thread that serves everyone: a thousand
 * that arrive at once would stop all others for a second. So only a few begin in one turn of the event loop, of each
 * address in turn. Those that wait cost a socket, which the limits of connections bound, and nothing is read from them.
 */
import type { Server, Socket } from 'node:net'
import { subjectOf } from './address.ts'
import { Turns } from './turns.ts'

/** Handshakes that begin in one turn of the event loop. */
const PER_TURN = 2

type Listener = (this: Server, socket: Socket) => void

/**
 * Makes a TLS server take turns. Must be called after all listeners of `connection` were added that may refuse a
 * connection before its handshake.
 */
export function takeTurns(server: Server): void {
  // The first listener is the server's own, which begins the handshake.
  const [handshake] = server.listeners('connection') as Listener[]
  if (!handshake) throw new Error('The server has no handshake to begin.')
  server.removeListener('connection', handshake)
  Object.assign(server, { pauseOnConnect: true })
  const turns = new Turns<Socket>({
    perTurn: PER_TURN,
    run: (socket) => handshake.call(server, socket),
    isGone: ({ destroyed }) => destroyed,
    nextTurn: setImmediate,
  })
  server.on('connection', (socket: Socket) => {
    if (!socket.destroyed) turns.add(subjectOf(socket.remoteAddress ?? ''), socket)
  })
}
