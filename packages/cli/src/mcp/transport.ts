/**
 * JSON-RPC on stdin and stdout. Adds to the library's transport: no more requests are read while the host does not read
 * the answers, and a request that is cancelled after it was answered is reported, because the host drops that answer.
 */
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import type { RequestId } from './mailbox.ts'

type JsonRpc = Parameters<StdioServerTransport['send']>[0]

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
    this.onmessage = (message) => {
      deliver?.(message)
      const request = cancelledRequest(message)
      if (request !== undefined) this.#cancelled(request)
    }
    await super.start()
  }

  override send(message: JsonRpc): Promise<void> {
    const sent = super.send(message)
    if (process.stdout.writableNeedDrain && !this.#isPaused) {
      this.#isPaused = true
      process.stdin.pause()
      process.stdout.once('drain', () => {
        this.#isPaused = false
        process.stdin.resume()
      })
    }
    return sent
  }
}

function cancelledRequest(message: JsonRpc): RequestId | undefined {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return undefined
  const request: unknown = message.params?.['requestId']
  return typeof request === 'string' || typeof request === 'number' ? request : undefined
}
