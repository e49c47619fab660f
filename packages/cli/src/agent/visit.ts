/** The other end of the socket: an agent that another process of this user holds. */
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { encodeFrame, FrameReader } from './socket-frame.ts'
import { socketPath } from './socket-path.ts'

const OTHERS = 0o077

interface Answer {
  readonly result?: unknown
  readonly error?: { readonly code?: unknown; readonly message?: unknown }
  readonly bye?: boolean
}

/** Whoever held the agent has closed it, and has not begun the request: it can be made anew. */
export class HolderLeft extends Error {}

/** A connection to the process that holds an agent. */
export class Visit {
  readonly #socket: Socket
  readonly #reader = new FrameReader()
  #asked: PromiseWithResolvers<unknown> | undefined
  #over: Error | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => this.#hear(chunk))
    socket.on('error', () => {})
    socket.on('close', () => this.#end(lost()))
  }

  /**
   * Connects; undefined when nobody holds the agent and shares it, or others could have put the socket there: whoever
   * opens the agent then is told so.
   */
  static async begin(directory: string): Promise<Visit | undefined> {
    try {
      if (!isPrivate(directory)) return undefined
      using place = socketPath(directory)
      const socket = connect(place.path)
      await once(socket, 'connect')
      return new Visit(socket)
    } catch {
      // No directory, no file, or a file that a killed process left.
      return undefined
    }
  }

  /**
   * Asks for one thing.
   *
   * @throws {HolderLeft} when nothing was done
   * @throws {StaticError} what the agent says, or `closed` when nobody knows whether it was done
   */
  async ask(action: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#over) throw this.#over
    const frame = encodeFrame({ action, args })
    this.#asked = Promise.withResolvers()
    this.#socket.write(frame)
    return await this.#asked.promise
  }

  /** Whether the connection has ended. */
  get isOver(): boolean {
    return this.#over !== undefined
  }

  /** Hangs up: what waits is given up. */
  end(): void {
    this.#socket.destroy()
  }

  #hear(chunk: Buffer): void {
    try {
      for (const answer of this.#reader.push(chunk)) this.#take(answer as Answer)
    } catch (error) {
      this.#end(StaticError.from(error))
      this.#socket.destroy()
    }
  }

  #take({ result, error, bye }: Answer): void {
    if (bye) return this.#end(new HolderLeft('The program that held the agent has ended.'))
    const asked = this.#asked
    this.#asked = undefined
    // Turned away at the door.
    if (error && !asked) return this.#end(errorOf(error))
    if (error) asked?.reject(errorOf(error))
    else asked?.resolve(result)
  }

  #end(reason: Error): void {
    this.#over ??= reason
    this.#asked?.reject(this.#over)
    this.#asked = undefined
  }
}

function isPrivate(directory: string): boolean {
  const user = process.geteuid?.()
  const { uid, mode } = statSync(directory)
  return user === undefined || (uid === user && (mode & OTHERS) === 0)
}

function errorOf({ code, message }: NonNullable<Answer['error']>): StaticError {
  const known = typeof code === 'string' && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal_error'
  return StaticError.of(known, typeof message === 'string' ? message : undefined)
}

function lost(): StaticError {
  return StaticError.of('closed', 'The program that held the agent ended in the middle: nobody knows what it has done.')
}
