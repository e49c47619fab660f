/** The connections of a port, and which one gives way when it is full: idle ones first. */
import type { Socket } from 'node:net'
import { Connected } from '@static/protocol'

export class Places {
  readonly #connected: Connected<Socket>
  /** By name, because with TLS a request's socket differs from its connection's. */
  readonly #sockets = new Map<string, Socket>()

  constructor(most: number) {
    this.#connected = new Connected(most)
  }

  /**
   * Adds a connection of an address in the form that limits count; another connection may lose its place. False if no
   * place is free.
   */
  take(socket: Socket, address: string): boolean {
    const { taken, ousted } = this.#connected.take(socket, address)
    for (const other of ousted) other.destroy()
    if (!taken) return false
    const name = nameOf(socket)
    this.#sockets.set(name, socket)
    socket.once('close', () => {
      // A later connection from the same port may have arrived before the end of this one was read.
      if (this.#sockets.get(name) === socket) this.#sockets.delete(name)
      this.#connected.leave(socket)
    })
    return true
  }

  /** A request has arrived on a connection. */
  busy(socket: Socket): void {
    const own = this.#sockets.get(nameOf(socket))
    if (own) this.#connected.busy(own)
  }

  /** All requests of a connection are answered. */
  idle(socket: Socket): void {
    const own = this.#sockets.get(nameOf(socket))
    if (own) this.#connected.idle(own)
  }
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
