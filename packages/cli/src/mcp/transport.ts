/**
 * JSON-RPC on stdin and stdout. Adds to the library's transport: invisible characters are escaped, no more requests are
 * read while the host does not read the answers, and a request that is cancelled after it was answered is reported,
 * because the host drops that answer.
 */
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { plainJson } from '../terminal/output.ts'
import type { RequestId } from './mailbox.ts'

type JsonRpc = Parameters<StdioServerTransport['send']>[0]

/** Answers that the host has not read. More than honest hosts leave, and a bound on memory. */
const MOST_UNREAD_BYTES = 32 * 1024 * 1024
const HOST_READS_WITHIN_MS = 60_000

/** The stdio of this process. */
export class HostTransport extends StdioServerTransport {
  readonly #cancelled: (request: RequestId) => void
  #isPaused = false

  constructor(cancelled: (request: RequestId) => void) {
    super()
    this.#cancelled = cancelled
  }

  override async start(): Promise<void> {
    const deliver = this.onmessage
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport is no EventTarget
    this.onmessage = (message) => {
      deliver?.(message)
      const request = cancelledRequest(message)
      if (request !== undefined) this.#cancelled(request)
    }
    await super.start()
  }

  /** Line separators of Unicode are escaped: hosts that split at them would take a part of a text for a message. */
  override async send(message: JsonRpc): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    process.stdout.write(`${plainJson(message)}\n`, (error) => (error ? reject(error) : resolve(undefined)))
    if (process.stdout.writableLength > MOST_UNREAD_BYTES && !this.#isPaused) this.#pause()
    await promise
  }

  /** While stdin is paused, its end goes unnoticed: a host that reads nothing for long is taken for gone. */
  #pause(): void {
    this.#isPaused = true
    process.stdin.pause()
    const late = setTimeout(() => process.stdin.destroy(), HOST_READS_WITHIN_MS)
    process.stdout.once('drain', () => {
      clearTimeout(late)
      this.#isPaused = false
      process.stdin.resume()
    })
  }
}

function cancelledRequest(message: JsonRpc): RequestId | undefined {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return undefined
  const request: unknown = message.params?.['requestId']
  return typeof request === 'string' || typeof request === 'number' ? request : undefined
}
