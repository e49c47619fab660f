/**
 * The socket by which other commands use the agent that this process holds. Only who holds the agent's database touches
 * the file, so of two that start at once one has it, and one that a killed process left is simply replaced.
 *
 * One request at a time on a connection; `next` and `settle` belong to it and end with it.
 */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { StaticError } from '@static/protocol'
import type { StaticChannelManager } from '@static/sdk'
import { runAction } from './actions.ts'
import { encodeFrame, FrameReader } from './socket-frame.ts'
import type { Follower, MessageQueue } from './message-queue.ts'
import { socketFile, type SocketPath, socketPath } from './socket-path.ts'

const MAX_CONNECTIONS = 32
const OTHERS = 0o177
/** When the agent closes, requests under way may take this long. */
const CLOSE_TIMEOUT_MS = 3_000

/** A request, as it comes. */
interface ActionRequest {
  readonly action?: unknown
  readonly args?: unknown
}

/** Serves other commands until it is closed. */
export class Host {
  readonly #manager: StaticChannelManager
  readonly #queue: MessageQueue
  readonly #server: Server
  readonly #path: SocketPath
  readonly #connections = new Set<HostConnection>()
  readonly #sockets = new Set<Socket>()

  private constructor(manager: StaticChannelManager, queue: MessageQueue, path: SocketPath) {
    this.#manager = manager
    this.#queue = queue
    this.#path = path
    this.#server = createServer((socket) => this.#accept(socket))
  }

  /** Opens the socket, 0600, in the agent's directory. */
  static async open(directory: string, manager: StaticChannelManager, queue: MessageQueue): Promise<Host> {
    rmSync(socketFile(directory), { force: true })
    const host = new Host(manager, queue, socketPath(directory))
    const listening = once(host.#server, 'listening')
    // The system makes the file with the mode that the mask leaves; `listen` does it before it returns.
    const mask = process.umask(OTHERS)
    try {
      host.#server.listen(host.#path.path)
    } finally {
      process.umask(mask)
    }
    await listening
    return host
  }

  /** Answers what is being done, tells the others that nothing of theirs was, and closes. */
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
      // Read to its end: the answer would be lost with a request that nobody has read.
      socket.resume()
      socket.end(encodeFrame(failure(StaticError.of('unavailable', 'Too many commands use this agent at once.'))))
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

/** Another command, on its connection. */
class HostConnection {
  readonly #socket: Socket
  readonly #manager: StaticChannelManager
  readonly #queue: MessageQueue
  readonly #reader = new FrameReader()
  readonly #followers = new Map<string, Follower>()
  /** What is being done; `next` waits for ever and is not worth waiting for. */
  #busy: 'no' | 'acting' | 'waiting' = 'no'
  #draining = false

  constructor(socket: Socket, manager: StaticChannelManager, queue: MessageQueue) {
    this.#socket = socket
    this.#manager = manager
    this.#queue = queue
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
  }

  /** The agent is about to be closed. */
  drain(): void {
    this.#draining = true
    if (this.#busy !== 'acting') this.#end()
  }

  /** The connection is over: what it did not settle is for others. */
  release(): void {
    for (const follower of this.#followers.values()) follower.abandon()
    this.#followers.clear()
  }

  #receive(chunk: Buffer): void {
    try {
      for (const request of this.#reader.push(chunk)) {
        if (this.#busy !== 'no') throw StaticError.of('invalid_request', 'One request at a time.')
        if (!this.#draining) void this.#answer(request ?? {})
      }
    } catch {
      this.#socket.destroy()
    }
  }

  async #answer({ action, args }: ActionRequest): Promise<void> {
    this.#busy = action === 'next' ? 'waiting' : 'acting'
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
