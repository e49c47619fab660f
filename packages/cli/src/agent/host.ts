/**
 * The socket through which other commands use the agent that this process holds. Only the process that holds the
 * agent's database lock touches the socket file. If two processes start at once, only one creates it, and a file left
 * by a killed process can simply be replaced.
 *
 * A connection carries one request at a time; its `next` and `settle` state ends with it.
 */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { StaticError } from '@static/protocol'
import type { StaticChannelManager } from '@static/sdk'
import { ACTIONS, holderWords, runAction } from './actions.ts'
import { encodeFrame, FrameReader } from './socket-frame.ts'
import type { Follower, MessageQueue } from './message-queue.ts'
import { socketFile, type SocketPath, socketPath } from './socket-path.ts'

const MAX_CONNECTIONS = 32
const OTHERS = 0o177
/** How long requests in progress may take when the agent closes. */
const CLOSE_TIMEOUT_MS = 3_000

/** Requests that may wait indefinitely, so closing does not wait for them. */
const WAITING = new Set<unknown>(['next', 'nextAnswer', 'gather', 'watchMembers', 'transfer', 'followApproval'])

/** A request, not yet validated. */
interface ActionRequest {
  readonly action?: unknown
  readonly args?: unknown
}

/** Serves other commands until it is closed. */
export class Host {
  readonly #manager: StaticChannelManager
  readonly #queue: MessageQueue | undefined
  readonly #server: Server
  readonly #path: SocketPath
  readonly #connections = new Set<HostConnection>()
  readonly #sockets = new Set<Socket>()

  private constructor(manager: StaticChannelManager, queue: MessageQueue | undefined, path: SocketPath) {
    this.#manager = manager
    this.#queue = queue
    this.#path = path
    this.#server = createServer((socket) => this.#accept(socket))
  }

  /**
   * Creates the socket with mode 0600 in the agent's directory. Without a queue, other commands cannot read messages.
   */
  static async open(directory: string, manager: StaticChannelManager, queue: MessageQueue | undefined): Promise<Host> {
    rmSync(socketFile(directory), { force: true })
    const host = new Host(manager, queue, socketPath(directory))
    const listening = once(host.#server, 'listening')
    // The umask sets the mode of the socket file, which `listen` creates before it returns.
    const mask = process.umask(OTHERS)
    try {
      host.#server.listen(host.#path.path)
    } finally {
      process.umask(mask)
    }
    await listening
    return host
  }

  /** Finishes requests in progress, tells waiting clients that theirs were not started, and closes. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const connection of this.#connections) connection.drain()
    const late = setTimeout(() => this.#sockets.forEach((socket) => socket.destroy()), CLOSE_TIMEOUT_MS)
    await closed
    clearTimeout(late)
    this.#path[Symbol.dispose]()
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => this.#sockets.delete(socket))
    if (this.#connections.size >= MAX_CONNECTIONS) {
      // Drain the request: closing with unread data resets the connection, and the answer would be lost.
      socket.resume()
      socket.end(
        encodeFrame(
          failure(
            StaticError.of(
              'unavailable',
              `Too many commands use this agent at once (limit: ${MAX_CONNECTIONS}). Try again when some have finished.`,
            ),
          ),
        ),
      )
      return
    }
    const connection = new HostConnection(socket, this.#manager, this.#queue)
    this.#connections.add(connection)
    socket.once('close', () => {
      this.#connections.delete(connection)
      connection.release()
    })
  }
}

/** The connection of another command. */
class HostConnection {
  readonly #socket: Socket
  readonly #manager: StaticChannelManager
  readonly #queue: MessageQueue | undefined
  readonly #reader = new FrameReader()
  readonly #followers = new Map<string, Follower>()
  /** The request in progress. */
  #busy: 'no' | 'acting' | 'waiting' = 'no'
  #draining = false

  constructor(socket: Socket, manager: StaticChannelManager, queue: MessageQueue | undefined) {
    this.#socket = socket
    this.#manager = manager
    this.#queue = queue
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
  }

  /** Stops accepting requests, because the agent is about to close. */
  drain(): void {
    this.#draining = true
    if (this.#busy !== 'acting') this.#end()
  }

  /** The connection has ended: returns unsettled messages to the queue. */
  release(): void {
    for (const follower of this.#followers.values()) follower.abandon()
    this.#followers.clear()
  }

  #receive(chunk: Buffer): void {
    try {
      for (const request of this.#reader.push(chunk)) {
        if (this.#busy !== 'no')
          throw StaticError.of('invalid_request', 'A request is still in progress. Send one request at a time.')
        if (!this.#draining) void this.#answer(request ?? {})
      }
    } catch {
      this.#socket.destroy()
    }
  }

  async #answer({ action, args }: ActionRequest): Promise<void> {
    this.#busy = WAITING.has(action) ? 'waiting' : 'acting'
    let answer: unknown
    try {
      answer = { result: (await this.#do(action, args)) ?? null }
    } catch (error) {
      answer = failure(error)
    }
    this.#busy = 'no'
    if (this.#socket.writable) this.#socket.write(encoded(answer))
    if (this.#draining) this.#end()
  }

  async #do(action: unknown, args: unknown): Promise<unknown> {
    if (action !== 'next' && action !== 'settle') return await runAction(this.#manager, action, args)
    if (!this.#queue) {
      throw StaticError.of(
        'store_locked',
        `${holderWords(await ACTIONS.holder())} reads the messages of this agent. Stop it, or use another agent (--as).`,
      )
    }
    const name = String(Array.isArray(args) ? args[0] : '')
    const follower = this.#followers.get(name) ?? this.#queue.follow(name)
    this.#followers.set(name, follower)
    return action === 'next' ? await follower.next() : await follower.settle()
  }

  #end(): void {
    if (this.#socket.writable) this.#socket.end(encodeFrame({ bye: true }))
  }
}

function encoded(answer: unknown): Buffer {
  try {
    return encodeFrame(answer)
  } catch (error) {
    return encodeFrame(failure(error))
  }
}

function failure(error: unknown): { readonly error: { readonly code: string; readonly message: string } } {
  const { code, message } = StaticError.from(error)
  return { error: { code, message } }
}
