/** `Subscribe` for the RPC library, which pulls messages at its reader's pace while the relay pushes them. */
import { Code, ConnectError } from '@connectrpc/connect'
import { encodeEnvelope } from '@static/protocol/envelope'
import { type ServerMessage, ServerMessageSchema } from '@static/protocol/relay'
import type { PushSink, Subscription } from '../../../ports.ts'
import { refusalError } from '../error.ts'

/** Options of a stream of pushes. */
export interface PushOptions {
  readonly subscribe: (sink: PushSink) => Subscription
  /** Aborted when the reader disconnects or the port stops. */
  readonly signal: AbortSignal
  /** Bytes that may wait for the reader. */
  readonly unsentBytes: number
  /** Called when the relay refuses the subscription or ends it with an error, before the reader sees that. */
  readonly refused: () => Promise<unknown>
  /** Called when nothing more will be pushed, even if the reader has not taken everything yet. */
  readonly ended: () => void
}

/** Yields pushes until the signal, the handler's end or an error. */
export async function* pushes(options: PushOptions): AsyncGenerator<ServerMessage> {
  const { signal } = options
  const queue = new PushQueue(options.unsentBytes, options.ended)
  const subscription = options.subscribe(queue)
  const stop = (): void => queue.stop()
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    for (;;) {
      const next = await queue.next()
      if (next === undefined) return
      if (next.body.case === 'error') {
        await options.refused()
        throw refusalError(next.body.value)
      }
      yield next
      if (queue.isEmpty) subscription.room()
    }
  } finally {
    signal.removeEventListener('abort', stop)
    if (!queue.endedByHandler) subscription.close()
  }
}

/** Messages pushed but not pulled yet. */
class PushQueue implements PushSink {
  endedByHandler = false
  readonly #most: number
  readonly #ended: () => void
  readonly #waiting: { readonly message: ServerMessage; readonly bytes: number }[] = []
  #bytes = 0
  #stopped = false
  #overrun = false
  #wake: (() => void) | undefined

  constructor(most: number, ended: () => void) {
    this.#most = most
    this.#ended = ended
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  write(message: ServerMessage): boolean {
    if (this.#stopped || this.#overrun || this.endedByHandler) return false
    const { length: bytes } = encodeEnvelope('protobuf', ServerMessageSchema, message)
    this.#bytes += bytes
    if (this.#bytes > this.#most) {
      this.#overrun = true
      this.#waiting.length = 0
      this.#ended()
    } else {
      this.#waiting.push({ message, bytes })
    }
    // A waiting reader takes exactly one.
    return this.#rouse() && !this.#overrun
  }

  end(): void {
    this.endedByHandler = true
    this.#ended()
    this.#rouse()
  }

  /** Stops the queue because the reader has disconnected. */
  stop(): void {
    this.#stopped = true
    this.#ended()
    this.#rouse()
  }

  /** The next message; undefined at the end. */
  async next(): Promise<ServerMessage | undefined> {
    while (!this.#stopped) {
      if (this.#overrun) throw new ConnectError('The subscriber reads too slowly.', Code.ResourceExhausted)
      const next = this.#waiting.shift()
      if (next !== undefined) {
        this.#bytes -= next.bytes
        return next.message
      }
      if (this.endedByHandler) return undefined
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
    return undefined
  }

  /** Wakes a waiting reader; returns whether there was one. */
  #rouse(): boolean {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
    return wake !== undefined
  }
}
