/**
 * A few QUIC connections to a relay that carry the streams of many agents: a QUIC client connection is heavy in Node,
 * a stream is not. A connection that breaks takes its streams with it; it is dialled again when the next one is wanted,
 * and now and then, so that a proxy which nobody uses because its relay was gone finds it back.
 */
import { makeCell, StaticError } from '@static/protocol'
import type { Upstream, UpstreamHandlers, UpstreamStream } from './upstream.ts'
import { connectQuic, type QuicConnection, type QuicTarget } from '@static/node/quic'

interface Lane {
  connection: Promise<QuicConnection> | undefined
  /** The connection that is up. */
  live: QuicConnection | undefined
  streams: number
  /** Not dialled again before that time. */
  failedUntil: number
}

/** How long a relay that could not be reached is left alone. */
const PAUSE_MS = 500
/** How often idle connections say something and lost ones are dialled again. */
const TEND_MS = 2000
/** A relay that is gone without a word is noticed after so long. */
const IDLE_MS = 6000
const PROBE_MS = 4000

/** Connections to one relay. */
export class QuicUpstream implements Upstream {
  readonly #target: QuicTarget
  readonly #lanes: readonly Lane[]
  readonly #now: () => number
  #tending: NodeJS.Timeout | undefined

  constructor(target: QuicTarget, connections: number, now: () => number) {
    this.#target = { idleTimeoutMs: IDLE_MS, ...target }
    this.#now = now
    this.#lanes = Array.from({ length: connections }, () => ({
      connection: undefined,
      live: undefined,
      streams: 0,
      failedUntil: 0,
    }))
  }

  /** Whether a connection is up. */
  get connected(): boolean {
    return this.#lanes.some(({ live }) => live !== undefined)
  }

  /**
   * Dials, so that the first agent does not wait and `connected` tells the truth, and keeps dialling every two seconds
   * whatever lane is not up. Rejects with the reason when a lane cannot be connected now.
   */
  async dial(): Promise<void> {
    this.#tending = setInterval(() => this.#tend(), TEND_MS)
    for (const lane of this.#lanes) await this.#connection(lane)
  }

  async open(handlers: UpstreamHandlers): Promise<UpstreamStream> {
    const lane = this.#lanes.reduce((best, one) => (one.streams < best.streams ? one : best))
    lane.streams++
    try {
      return await this.#stream(lane, handlers)
    } catch (cause) {
      lane.streams--
      throw StaticError.of('unavailable', 'The relay is out of reach.', { cause, retryAfter: 1 })
    }
  }

  /** A stream on the lane's connection, or on a new one when that turns out to be over. */
  async #stream(lane: Lane, handlers: UpstreamHandlers): Promise<UpstreamStream> {
    const connection = await this.#connection(lane)
    const carried = {
      data: (bytes: Uint8Array): void => handlers.data(bytes),
      closed: (reason: StaticError | undefined): void => {
        lane.streams--
        // Without an end in order the connection itself is in doubt.
        if (reason !== undefined) this.#forget(lane, connection)
        handlers.closed(reason)
      },
    }
    try {
      return connection.openStream(carried)
    } catch {
      this.#forget(lane, connection)
      return (await this.#connection(lane)).openStream(carried)
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#tending)
    for (const { connection } of this.#lanes) {
      // One that never came up needs no closing.
      await connection?.then((made) => made.close()).catch(() => {})
    }
  }

  #tend(): void {
    for (const lane of this.#lanes) {
      if (lane.live) this.#probe(lane, lane.live)
      // Whoever wants a stream is told why there is none.
      else this.#connection(lane).catch(() => {})
    }
  }

  /** Asks over a stream of its own whether the relay is there; the library's own ping stops the whole process. */
  #probe(lane: Lane, connection: QuicConnection): void {
    const late = setTimeout(() => this.#forget(lane, connection), PROBE_MS)
    const answered = (): void => {
      clearTimeout(late)
      stream.end()
    }
    let stream: UpstreamStream
    try {
      stream = connection.openStream({ data: answered, closed: () => {} })
      stream.write(makeCell('ping'))
    } catch {
      clearTimeout(late)
      this.#forget(lane, connection)
    }
  }

  #connection(lane: Lane): Promise<QuicConnection> {
    if (lane.connection) return lane.connection
    if (this.#now() < lane.failedUntil) return Promise.reject(StaticError.of('unavailable'))
    const made = connectQuic(this.#target)
    lane.connection = made
    made.then(
      (connection) => {
        lane.live = connection
        void connection.closed.then(() => this.#forget(lane, connection))
      },
      () => {
        lane.connection = undefined
        lane.failedUntil = this.#now() + PAUSE_MS
      },
    )
    return made
  }

  #forget(lane: Lane, broken: QuicConnection): void {
    // A newer one may have taken its place already.
    if (lane.live !== broken) return
    lane.connection = undefined
    lane.live = undefined
    broken.close().catch(() => {})
  }
}
