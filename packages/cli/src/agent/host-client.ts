/** The client side of the host socket: uses an agent that another process of this user holds. */
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { encodeFrame, FrameReader } from './socket-frame.ts'
import { socketPath } from './socket-path.ts'

const OTHERS = 0o077

interface HostAnswer {
  readonly result?: unknown
  readonly error?: { readonly code?: unknown; readonly message?: unknown }
  readonly bye?: boolean
}

/** The process that held the agent closed it without starting the request, which can be retried. */
export class HostClosed extends Error {}

/** A connection to the process that holds an agent. */
export class HostClient {
  readonly #socket: Socket
  readonly #reader = new FrameReader()
  #pending: PromiseWithResolvers<unknown> | undefined
  #closed: Error | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('error', () => {})
    socket.on('close', () => this.#fail(lost()))
  }

  /**
   * Connects to the host; undefined if no process shares the agent, or if other users could have created the socket
   * there: opening the agent then fails with the reason.
   */
  static async connect(directory: string): Promise<HostClient | undefined> {
    try {
      if (!isPrivate(directory)) return undefined
      using socketAt = socketPath(directory)
      const socket = connect(socketAt.path)
      await once(socket, 'connect')
      return new HostClient(socket)
    } catch {
      // No directory, no socket, or one left by a killed process.
      return undefined
    }
  }

  /**
   * Sends one request and waits for its result.
   *
   * @throws {HostClosed} if the request was not started
   * @throws {StaticError} the error of the agent, or `closed` if the outcome is unknown
   */
  async request(action: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#closed) throw this.#closed
    const frame = encodeFrame({ action, args })
    this.#pending = Promise.withResolvers()
    this.#socket.write(frame)
    return await this.#pending.promise
  }

  get isClosed(): boolean {
    return this.#closed !== undefined
  }

  /** Closes the connection and abandons the pending request. */
  close(): void {
    this.#socket.destroy()
  }

  #receive(chunk: Buffer): void {
    try {
      for (const answer of this.#reader.push(chunk)) this.#take(answer as HostAnswer)
    } catch (error) {
      this.#fail(StaticError.from(error))
      this.#socket.destroy()
    }
  }

  #take({ result, error, bye }: HostAnswer): void {
    if (bye) return this.#fail(new HostClosed('The process that had the agent open has exited.'))
    const pending = this.#pending
    this.#pending = undefined
    // Refused before any request, because of too many connections.
    if (error && !pending) return this.#fail(errorOf(error))
    if (error) pending?.reject(errorOf(error))
    else pending?.resolve(result)
  }

  #fail(reason: Error): void {
    this.#closed ??= reason
    this.#pending?.reject(this.#closed)
    this.#pending = undefined
  }
}

function isPrivate(directory: string): boolean {
  const user = process.geteuid?.()
  const { uid, mode } = statSync(directory)
  return user === undefined || (uid === user && (mode & OTHERS) === 0)
}

function errorOf({ code, message }: NonNullable<HostAnswer['error']>): StaticError {
  const known = typeof code === 'string' && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal_error'
  return StaticError.of(known, typeof message === 'string' ? message : undefined)
}

function lost(): StaticError {
  return StaticError.of(
    'closed',
    'The process that had the agent open exited during the request. The request may or may not have completed: check before you retry.',
  )
}
