/** A TCP forwarder on loopback that can be cut, as a network is cut: connections stay open and nothing gets through. */
import { once } from 'node:events'
import { createServer, connect as dial, type Socket } from 'node:net'

/** The way from one program to a server. */
export interface Gate extends AsyncDisposable {
  /** Where to connect instead. */
  readonly port: number
  /** From now on nothing arrives on either side: no bytes, and no sign that the other side has closed. */
  cut(): void
  /** Data sent meanwhile arrives now. */
  mend(): void
}

/** A connection through the gate. */
class Passage {
  readonly #client: Socket
  readonly #target: number
  #server: Socket | undefined
  #isCut = false

  constructor(client: Socket, target: number) {
    this.#client = watched(client, () => this.#ended())
    this.#target = target
    // Nothing is read before there is a peer to pass it to.
    client.pause()
  }

  open(): void {
    this.#isCut = false
    this.#server ??= watched(dial(this.#target, '127.0.0.1'), () => this.#ended())
    this.#client.pipe(this.#server)
    this.#server.pipe(this.#client)
    if (this.#client.destroyed || this.#server.destroyed) this.destroy()
  }

  cut(): void {
    this.#isCut = true
    for (const socket of [this.#client, this.#server]) socket?.unpipe().pause()
  }

  destroy(): void {
    this.#client.destroy()
    this.#server?.destroy()
  }

  #ended(): void {
    if (!this.#isCut) this.destroy()
  }
}

function watched(socket: Socket, onClose: () => void): Socket {
  socket.setNoDelay(true)
  // 'close' follows.
  socket.on('error', () => {})
  return socket.on('close', onClose)
}

/** Opens the way to a port of 127.0.0.1. */
export async function openGate(target: number): Promise<Gate> {
  const passages = new Set<Passage>()
  let isCut = false
  const listener = createServer((client) => {
    const passage = new Passage(client, target)
    passages.add(passage)
    client.on('close', () => isCut || passages.delete(passage))
    if (isCut) passage.cut()
    else passage.open()
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const address = listener.address()
  if (address === null || typeof address === 'string') throw new Error('The gate has no port.')
  return {
    port: address.port,
    cut: () => {
      isCut = true
      for (const passage of passages) passage.cut()
    },
    mend: () => {
      isCut = false
      for (const passage of passages) passage.open()
    },
    [Symbol.asyncDispose]: async () => {
      for (const passage of passages) passage.destroy()
      listener.close()
      await once(listener, 'close')
    },
  }
}
