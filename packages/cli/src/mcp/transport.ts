/**
 * JSON-RPC on stdin and stdout. It extends the library's transport: invisible characters are escaped, and requests wait
 * while the host does not read the answers. It also reports when requests arrive, when their answers are written, and
 * when a request is cancelled after it was answered, because the host drops that answer.
 */
import type { Readable, Writable } from 'node:stream'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { plainJson } from '../terminal/output.ts'
import type { RequestId } from './handed-over.ts'

type JsonRpc = Parameters<StdioServerTransport['send']>[0]

/** The events that a transport reports to its owner. */
export interface TransportEvents {
  /** A request was read from stdin. It may wait before it is handed over. */
  readonly arrived: (request: RequestId) => void
  /** The answer to a request was written to stdout. */
  readonly answered: (request: RequestId) => void
  readonly cancelled: (request: RequestId) => void
  /** No more requests will come: the host is gone, or sent something that no honest host sends. */
  readonly closed: () => void
}

/** Limit of answers that the host has not read: more than honest hosts leave, and a bound on memory. */
const MOST_UNREAD_BYTES = 32 * 1024 * 1024
/**
 * Limit of requests that wait until the host reads. They are taken from stdin, because its end can be detected only by
 * reading.
 */
const MOST_HELD_CHARACTERS = 8 * 1024 * 1024
/** Held requests passed on at once: their answers are not counted yet. */
const HELD_AT_ONCE = 100

/** The stdio of this process. */
export class HostTransport extends StdioServerTransport {
  readonly #events: TransportEvents
  readonly #stdout: Writable
  readonly #held: JsonRpc[] = []
  #heldCharacters = 0
  #isHandingOver = false
  #deliver: ((message: JsonRpc) => void) | undefined

  constructor(events: TransportEvents, stdin: Readable = process.stdin, stdout: Writable = process.stdout) {
    super(stdin, stdout)
    this.#events = events
    this.#stdout = stdout
  }

  override async start(): Promise<void> {
    this.#deliver = this.onmessage
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport is no EventTarget
    this.onmessage = (message) => {
      if ('method' in message && 'id' in message) this.#events.arrived(message.id)
      if (this.#held.length === 0 && this.#stdout.writableLength <= MOST_UNREAD_BYTES) this.#handOver(message)
      else this.#hold(message)
    }
    await super.start()
  }

  /** Unicode line separators are escaped: hosts that split at them would take part of a text for a message. */
  override async send(message: JsonRpc): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    this.#stdout.write(`${plainJson(message)}\n`, (error) => {
      if (error) return reject(error)
      resolve(undefined)
      if (!('method' in message) && message.id !== undefined) this.#events.answered(message.id)
      this.#handOverHeld()
    })
    await promise
  }

  override async close(): Promise<void> {
    this.#held.length = 0
    await super.close()
    this.#events.closed()
  }

  #handOver(message: JsonRpc): void {
    this.#deliver?.(message)
    const request = cancelledRequest(message)
    if (request !== undefined) this.#events.cancelled(request)
  }

  #hold(message: JsonRpc): void {
    this.#held.push(message)
    this.#heldCharacters += JSON.stringify(message).length
    if (this.#heldCharacters > MOST_HELD_CHARACTERS) void this.close()
  }

  #handOverHeld(): void {
    if (this.#isHandingOver || this.#held.length === 0 || this.#stdout.writableLength > MOST_UNREAD_BYTES) return
    for (const message of this.#held.splice(0, HELD_AT_ONCE)) {
      this.#heldCharacters -= JSON.stringify(message).length
      this.#handOver(message)
    }
    this.#isHandingOver = true
    setImmediate(() => {
      this.#isHandingOver = false
      this.#handOverHeld()
    })
  }
}

function cancelledRequest(message: JsonRpc): RequestId | undefined {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return undefined
  const request: unknown = message.params?.['requestId']
  return typeof request === 'string' || typeof request === 'number' ? request : undefined
}
