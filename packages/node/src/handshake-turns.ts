/**
 * Starts TLS handshakes in turns. A handshake costs about a millisecond of the thread that serves everyone: a thousand
 * that arrive at once would stop all others for a second. So only a few begin in one turn of the event loop, of each
 * address in turn. Those that wait cost a socket, which the limits of connections bound, and nothing is read from them.
 */
import type { Server, Socket } from 'node:net'
import { subjectOf } from './address.ts'

/** Handshakes that begin in one turn of the event loop. */
const PER_TURN = 4

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
  /** Those that wait, by address; the first is next. */
  const waiting = new Map<string, Socket[]>()
  let begun = 0
  let isScheduled = false
  const begin = (socket: Socket): void => {
    begun++
    schedule()
    handshake.call(server, socket)
  }
  const schedule = (): void => {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      begun = 0
      for (let socket = next(waiting); socket !== undefined; socket = next(waiting)) {
        begin(socket)
        if (begun >= PER_TURN) return
      }
    })
  }
  server.on('connection', (socket: Socket) => {
    if (socket.destroyed) return
    if (begun < PER_TURN && waiting.size === 0) return begin(socket)
    const subject = subjectOf(socket.remoteAddress ?? '')
    const own = waiting.get(subject)
    if (own) own.push(socket)
    else waiting.set(subject, [socket])
    schedule()
  })
}

/** Takes the first socket of the first address that is still open; the address goes to the end. */
function next(waiting: Map<string, Socket[]>): Socket | undefined {
  for (const [subject, own] of waiting) {
    waiting.delete(subject)
    const at = own.findIndex(({ destroyed }) => !destroyed)
    if (at === -1) continue
    const [socket] = own.splice(0, at + 1).slice(-1)
    if (own.length > 0) waiting.set(subject, own)
    return socket
  }
  return undefined
}
