/** The connections of a port, and which gives way when it is full: idle ones first. */
import type { Socket } from 'node:net'
import { Connected } from '@static/protocol'

export class Places {
  readonly #connected: Connected<Socket>
  /** By name: with TLS, a request has another socket than its connection. */
  readonly #sockets = new Map<string, Socket>()

  constructor(most: number) {
    this.#connected = new Connected(most)
  }

  /** Adds a connection of an address as limits count it; another one may lose its place. False if there is none. */
  take(socket: Socket, address: string): boolean {
    const { taken, ousted } = this.#connected.take(socket, address)
    for (const other of ousted) other.destroy()
    if (!taken) return false
    const name = nameOf(socket)
    this.#sockets.set(name, socket)
    socket.once('close', () => {
      // A later connection from the same port may have come before this one's end was read.
      if (this.#sockets.get(name) === socket) this.#sockets.delete(name)
      this.#connected.leave(socket)
    })
    return true
  }

  /** A request has come on a connection. */
  busy(socket: Socket): void {
    const own = this.#sockets.get(nameOf(socket))
    if (own) this.#connected.busy(own)
  }

  /** All its requests are answered. */
  idle(socket: Socket): void {
    const own = this.#sockets.get(nameOf(socket))
    if (own) this.#connected.idle(own)
  }
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
