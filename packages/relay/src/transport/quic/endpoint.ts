/**
 * One QUIC endpoint as the relay's thread sees it: a port, served by its own thread so that neither blocks the other. A
 * thread that dies is restarted on the same port; its streams are lost.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { listenError } from '@static/node/listen-error'
import { withPrivateTemp } from '@static/quic'
import { type Pace, StaticError } from '@static/protocol'
import type { PacingCounts } from '../../session/pacing.ts'
import type { Peer, StreamId } from '../../ports.ts'
import {
  type Arrivals,
  type Departures,
  type EndpointSettings,
  type FromEndpoint,
  ChunkPacker,
  type StreamNumber,
  type ToEndpoint,
} from './worker-messages.ts'

const FIRST_BACK_OFF_MS = 50
const LAST_BACK_OFF_MS = 5_000
/** A thread that ran this long resets the backoff when it dies. */
const STEADY_MS = 60_000
/** A thread that hangs is terminated after this time. */
const STOP_MS = 6_000

/** Receives the events of an endpoint. */
export interface EndpointHandler {
  /** Must call `accept` or `refuse` before it returns. */
  opened(endpoint: QuicEndpoint, stream: StreamNumber, peer: Peer): void
  received(id: StreamId, chunk: Uint8Array): void
  closed(id: StreamId): void
  /** A connection from this address was closed because there are too many. */
  full(address: string): void
  log(message: string, detail: string): void
}

/** A supervised QUIC endpoint. */
export class QuicEndpoint {
  readonly #handler: EndpointHandler
  #settings: Omit<EndpointSettings, 'taken'>
  #worker: Worker | undefined
  #stopping = false
  #restarting: Promise<void> = Promise.resolve()
  #backOffMs = FIRST_BACK_OFF_MS
  /** Every stream that is neither closed nor ended. */
  readonly #streams = new Map<StreamNumber, { readonly id: StreamId; readonly proxy: boolean }>()
  #sessions = 0
  readonly #packer = new ChunkPacker()
  #writes: number[] = []
  /** Where the last of the writes begins. */
  #lastWrite = -1
  #paced: { readonly stream: StreamNumber; readonly pace: Pace }[] = []
  #pacing: PacingCounts | undefined
  #known: StreamNumber[] = []
  #ended: StreamNumber[] = []
  #scheduled = false

  private constructor(settings: Omit<EndpointSettings, 'taken'>, handler: EndpointHandler) {
    this.#settings = settings
    this.#handler = handler
  }

  /** Resolves when the port is served. Rejects with `unavailable` if it cannot. */
  static async start(settings: Omit<EndpointSettings, 'taken'>, handler: EndpointHandler): Promise<QuicEndpoint> {
    const endpoint = new QuicEndpoint(settings, handler)
    await endpoint.#start()
    return endpoint
  }

  get port(): number {
    return this.#settings.port
  }

  /** Number of open streams of agents. */
  get sessions(): number {
    return this.#sessions
  }

  /** Assigns the id under which the handler knows a new stream. */
  accept(stream: StreamNumber, id: StreamId, proxy: boolean): void {
    this.#streams.set(stream, { id, proxy })
    if (!proxy) this.#sessions++
  }

  /** Rejects a new stream. */
  refuse(stream: StreamNumber): void {
    this.#ended.push(stream)
    this.#schedule()
  }

  /** Writes the same bytes to each of the streams; they are passed to the thread once. */
  write(streams: readonly StreamNumber[], cells: Uint8Array, urgent: boolean): void {
    this.#packer.add(cells)
    const writes = this.#writes
    const last = writes.length - 4
    const isAlike = last >= 0 && last === this.#lastWrite && writes[last + 1] === Number(urgent)
    // Consecutive data for one stream becomes one write.
    if (streams.length === 1 && isAlike && writes[last + 3] === streams[0]) {
      writes[last] = (writes[last] ?? 0) + cells.length
    } else {
      this.#lastWrite = writes.length
      writes.push(cells.length, Number(urgent), streams.length)
      for (const stream of streams) writes.push(stream)
    }
    this.#schedule()
  }

  /** Puts a stream on a clock. */
  pace(stream: StreamNumber, pace: Pace): void {
    this.#paced.push({ stream, pace })
    this.#schedule()
  }

  /** The peer of a stream is authenticated. */
  known(stream: StreamNumber): void {
    this.#known.push(stream)
    this.#schedule()
  }

  /** Counts of the clocks in this thread. */
  get pacing(): PacingCounts | undefined {
    return this.#pacing
  }

  /** Ends a stream. Nothing more is reported about it. */
  end(stream: StreamNumber): void {
    if (this.#forget(stream) !== undefined) this.refuse(stream)
  }

  /**
   * Restarts the thread with another certificate: all streams close, and their peers reconnect. Rejects with
   * `unavailable` if the first attempt fails; further attempts follow.
   */
  async renew(certificate: { readonly cert: string; readonly key: string }): Promise<void> {
    await this.stop()
    this.#settings = { ...this.#settings, ...certificate }
    this.#stopping = false
    try {
      await this.#start()
    } catch (error) {
      this.#restarting = this.#restart()
      throw error
    }
  }

  /** Notifies peers immediately. The port is free when the promise resolves. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#restarting
    const worker = this.#worker
    if (worker === undefined) return
    this.#post()
    const stopped = new Promise<void>((resolve) => {
      worker.on('message', (message: FromEndpoint) => {
        if (message.type === 'stopped') resolve()
      })
      worker.once('exit', () => resolve())
      setTimeout(resolve, STOP_MS).unref()
    })
    worker.postMessage({ type: 'stop' } satisfies ToEndpoint, [])
    await stopped
    await worker.terminate()
  }

  async #start(): Promise<void> {
    // The library reads key and certificate files when the thread starts to listen.
    await withPrivateTemp(async () => {
      const taken = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
      const workerData: EndpointSettings = { ...this.#settings, taken }
      const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData })
      const counter = new Int32Array(taken)
      let failure = 'its thread ended'
      worker.on('error', (error) => {
        failure = error instanceof Error ? error.message : String(error)
      })
      const listening = await new Promise<boolean>((resolve) => {
        worker.on('message', (message: FromEndpoint) => {
          if (message.type === 'arrivals') {
            this.#take(message)
            Atomics.add(counter, 0, 1)
          } else if (message.type === 'pacing') this.#pacing = message.counts
          else if (message.type === 'full') this.#handler.full(message.address)
          else if (message.type === 'warning') this.#handler.log(message.message, message.detail)
          else if (message.type === 'listening') resolve(true)
          else if (message.type === 'failed') {
            failure = message.message
            resolve(false)
          }
        })
        worker.once('exit', () => resolve(false))
      })
      if (!listening) {
        await worker.terminate()
        throw listenError(`UDP port ${this.port}`, failure)
      }
      const since = performance.now()
      this.#worker = worker
      worker.once('exit', () => this.#lost(failure, performance.now() - since))
    })
  }

  #lost(failure: string, livedMs: number): void {
    this.#worker = undefined
    this.#packer.pack()
    this.#writes = []
    this.#paced = []
    this.#pacing = undefined
    this.#lastWrite = -1
    this.#known = []
    this.#ended = []
    for (const stream of this.#streams.keys()) this.#closed(stream)
    if (this.#stopping) return
    this.#handler.log(`The thread of the QUIC endpoint on port ${this.port} died. Restarting it.`, failure)
    if (livedMs > STEADY_MS) this.#backOffMs = FIRST_BACK_OFF_MS
    this.#restarting = this.#restart()
  }

  async #restart(): Promise<void> {
    while (!this.#stopping) {
      await delay(this.#backOffMs)
      this.#backOffMs = Math.min(this.#backOffMs * 2, LAST_BACK_OFF_MS)
      try {
        await this.#start()
        return
      } catch (error) {
        this.#handler.log('Restarting the QUIC endpoint failed.', StaticError.from(error).message)
      }
    }
  }

  #take({ opened, chunks, bytes, closed }: Arrivals): void {
    for (const { stream, address, proxy } of opened) {
      this.#handler.opened(this, stream, { transport: 'quic', form: 'cbor', address, proxy })
    }
    let offset = 0
    for (let at = 0; at < chunks.length; at += 2) {
      const length = chunks[at + 1] ?? 0
      const open = this.#streams.get(chunks[at] ?? 0)
      if (open !== undefined) this.#handler.received(open.id, new Uint8Array(bytes, offset, length))
      offset += length
    }
    for (const stream of closed) this.#closed(stream)
  }

  #closed(stream: StreamNumber): void {
    const id = this.#forget(stream)
    if (id !== undefined) this.#handler.closed(id)
  }

  #forget(stream: StreamNumber): StreamId | undefined {
    const open = this.#streams.get(stream)
    if (open === undefined) return undefined
    this.#streams.delete(stream)
    if (!open.proxy) this.#sessions--
    return open.id
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#post())
  }

  #post(): void {
    this.#scheduled = false
    const lists = [this.#writes, this.#paced, this.#known, this.#ended]
    if (this.#worker === undefined || lists.every(({ length }) => length === 0)) return
    const bytes = this.#packer.pack()
    const message: Departures = {
      type: 'departures',
      writes: this.#writes,
      bytes,
      paced: this.#paced,
      known: this.#known,
      ended: this.#ended,
    }
    this.#worker.postMessage(message, [bytes])
    this.#writes = []
    this.#paced = []
    this.#lastWrite = -1
    this.#known = []
    this.#ended = []
  }
}
