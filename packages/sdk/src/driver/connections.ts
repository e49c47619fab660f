/**
 * The connections of a program to the driver: one per client, so that each ends separately. A connection that ends, or
 * that sends an invalid frame, closes only its own client.
 */
import type { Duplex } from 'node:stream'
import { StaticError } from '@static/protocol'
import { Driver } from './driver.ts'
import { encodePipeFrame, PipeFrameReader } from './pipe-frame.ts'

export class Connections {
  readonly #open = new Set<Connection>()

  /** Serves a new connection. It must stay writable after it has ended, for the answers to pending calls. */
  add(stream: Duplex): void {
    const connection = new Connection(stream)
    this.#open.add(connection)
    stream.once('close', () => this.#open.delete(connection))
  }

  /** Shuts all clients down before the process exits, without waiting for one that is still connecting. */
  async close(): Promise<void> {
    const closing = [...this.#open].filter((connection) => !connection.isConnecting)
    await Promise.all(closing.map((connection) => connection.close()))
  }
}

/** One client of the program. */
class Connection {
  readonly #stream: Duplex
  readonly #driver: Driver
  #closing: Promise<void> | undefined

  constructor(stream: Duplex) {
    this.#stream = stream
    this.#driver = new Driver((message, bytes) => {
      if (!stream.writable) return
      // Frames from one turn of the event loop go out in one write.
      if (stream.writableCorked === 0) {
        stream.cork()
        setImmediate(() => stream.uncork())
      }
      for (const piece of encodePipeFrame(message, bytes)) stream.write(piece)
    })
    const frames = new PipeFrameReader()
    const close = (): void => void this.close()
    stream.on('data', (chunk: Buffer) => {
      try {
        for (const frame of frames.push(chunk)) this.#driver.handle(frame)
      } catch (error) {
        warn('The program sent something that the driver does not understand', error)
        stream.destroy()
      }
    })
    stream.on('end', close)
    // The other end is gone; `close` follows.
    stream.on('error', () => {})
    stream.on('close', close)
  }

  get isConnecting(): boolean {
    return this.#driver.isConnecting
  }

  /** Shuts the client down, then ends the connection, which tells the program that the client is closed. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    // Even after a failure, the agent has released its directory.
    await this.#driver.close().catch((error: unknown) => warn('A client could not be closed in order', error))
    await new Promise<void>((resolve) => this.#stream.end(() => resolve()))
    // The program may not have ended its side.
    this.#stream.destroy()
  }
}

/** Shows a warning on stderr. */
function warn(what: string, error: unknown): void {
  process.emitWarning(`${what}: ${StaticError.from(error).message}`)
}
