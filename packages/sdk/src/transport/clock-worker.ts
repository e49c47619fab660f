/** The thread of a clocked stream: it dials, and sends one cell at each tick. It decides nothing else. */
import { randomInt } from 'node:crypto'
import { isMainThread, type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { ConnectionError } from '@static/node/connection-error'
import { Pacer, StaticError } from '@static/protocol'
import type { CellStream } from '../ports/index.ts'
import type { ClockSettings, FromClock, SentError, ToClock } from './clock-message.ts'
import type { DialOptions } from './dial-options.ts'
import { makeGrpcTransport } from './grpc.ts'
import { makeQuicTransport } from './quic.ts'

/** Time in which queued cells are still sent when the stream ends. */
const END_MS = 2000
/** How far the agent may fall behind. A relay that waits for answers to its marks sends far less. */
const MAX_BEHIND_BYTES = 8 * 1024 * 1024
const FLOOD = 'The relay sends faster than the agent can read.'
const STEPS = 2 ** 32

class ClockedStream {
  readonly #port: MessagePort
  readonly #consumed: Int32Array
  /** Bytes passed to the agent. Wraps around, like the shared counter. */
  #handed = 0
  #over = false
  #stream: CellStream | undefined
  #pacer: Pacer | undefined
  #endBy = Infinity
  #shielded: (() => void) | undefined

  constructor(port: MessagePort, { consumed }: ClockSettings) {
    this.#port = port
    this.#consumed = new Int32Array(consumed)
  }

  async dial({ way, target, connectTimeoutMs }: ClockSettings): Promise<void> {
    const options = {
      shield: (use) => this.#shield(use),
      ...(connectTimeoutMs === undefined ? {} : { connectTimeoutMs }),
    } satisfies DialOptions
    const transport = way === 'quic' ? makeQuicTransport(options) : makeGrpcTransport(options)
    try {
      this.#stream = await transport.dial(target, {
        data: (chunk) => this.#data(chunk),
        closed: (reason) => this.#closed(reason),
      })
      this.#post({ type: 'dialled', address: this.#stream.address })
    } catch (error) {
      this.#post({ type: 'failed', error: sent(StaticError.from(error)) })
    }
  }

  /** Handles a message from the agent's thread. */
  handle(message: ToClock): void {
    switch (message.type) {
      case 'write':
        if (!this.#pacer) this.#stream?.write(message.cells)
        else this.#pacer.push(message.cells, message.urgent, performance.now())
        return
      case 'pace':
        this.#pacer = new Pacer(message.pace, () => randomInt(STEPS) / STEPS, performance.now())
        this.#wait(this.#pacer)
        return
      case 'end':
        if (this.#pacer) this.#endBy = performance.now() + END_MS
        else this.#stream?.end()
        return
      case 'shielded':
        this.#shielded?.()
    }
  }

  #data(chunk: Uint8Array): void {
    if (this.#over) return
    this.#handed = (this.#handed + chunk.length) | 0
    const behind = (this.#handed - Atomics.load(this.#consumed, 0)) | 0
    if (behind > MAX_BEHIND_BYTES) this.#closed(new ConnectionError('closed', FLOOD))
    else this.#post({ type: 'data', chunk })
  }

  #closed(reason: StaticError | undefined): void {
    this.#over = true
    this.#post({ type: 'closed', error: reason && sent(reason) })
  }

  #wait(pacer: Pacer): void {
    setTimeout(() => this.#tick(pacer), Math.max(0, Math.ceil(pacer.due - performance.now())))
  }

  #tick(pacer: Pacer): void {
    const now = performance.now()
    if (this.#endBy !== Infinity && (pacer.waiting === 0 || now > this.#endBy)) {
      this.#stream?.end()
      return
    }
    this.#stream?.write(pacer.tick(now))
    this.#wait(pacer)
  }

  /** Only the main thread can change the environment variables that the library reads. */
  async #shield<Result>(use: () => Promise<Result>): Promise<Result> {
    await new Promise<void>((resolve) => {
      this.#shielded = resolve
      this.#post({ type: 'shield' })
    })
    try {
      return await use()
    } finally {
      this.#post({ type: 'unshield' })
    }
  }

  #post(message: FromClock): void {
    this.#port.postMessage(message, [])
  }
}

function sent(error: StaticError): SentError {
  const { code, message } = error
  return { code, message, reason: error instanceof ConnectionError ? error.reason : undefined }
}

if (!isMainThread && parentPort !== null) {
  const settings = workerData as ClockSettings
  const stream = new ClockedStream(parentPort, settings)
  parentPort.on('message', (message: ToClock) => stream.handle(message))
  await stream.dial(settings)
}
