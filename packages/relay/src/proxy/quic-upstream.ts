/**
 * A few QUIC connections to a relay that carry the streams of many agents: in Node a QUIC client connection is
 * expensive, a stream is not. A broken connection takes its streams with it. It is dialed again for the next stream,
 * and periodically, so that an idle proxy finds its relay again after an outage.
 */
import { makeCell, StaticError } from '@static/protocol'
import type { Upstream, UpstreamHandlers, UpstreamStream } from './upstream.ts'
import { connectQuic, type QuicConnection, type QuicTarget } from '@static/node/quic'

interface Lane {
  connection: Promise<QuicConnection> | undefined
  /** The established connection. */
  live: QuicConnection | undefined
  streams: number
  /** Not dialed again before this time. */
  failedUntil: number
}

/** Pause after a failed dial. */
const PAUSE_MS = 500
/** Interval for probing idle connections and dialing lost ones again. */
const TEND_MS = 2000
/** Time after which a silent relay is considered gone. */
const IDLE_MS = 6000
const PROBE_MS = 4000
const UNREACHABLE = 'The relay behind this proxy cannot be reached. Retry.'

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

  /** Whether a connection is established. */
  get connected(): boolean {
    return this.#lanes.some(({ live }) => live !== undefined)
  }

  /**
   * Connects in advance, so that the first agent does not wait and `connected` is accurate. Retries every two seconds;
   * rejects with the reason if a lane cannot connect now.
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
      throw StaticError.of('unavailable', 'The relay is unreachable.', { cause, retryAfter: 1 })
    }
  }

  /** Opens a stream on the lane's connection, or on a new one if that turns out to be closed. */
  async #stream(lane: Lane, handlers: UpstreamHandlers): Promise<UpstreamStream> {
    const connection = await this.#connection(lane)
    const carried = {
      data: (bytes: Uint8Array): void => handlers.data(bytes),
      closed: (reason: StaticError | undefined): void => {
        lane.streams--
        // If the stream did not end cleanly, the connection itself may be broken.
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
      // A connection that was never established needs no closing.
      await connection?.then((made) => made.close()).catch(() => {})
    }
  }

  #tend(): void {
    for (const lane of this.#lanes) {
      if (lane.live) this.#probe(lane, lane.live)
      // A caller that wants a stream gets the error.
      else this.#connection(lane).catch(() => {})
    }
  }

  /**
   * Checks on a separate stream whether the relay is alive, because the library's own ping blocks the whole process.
   */
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
    if (this.#now() < lane.failedUntil) return Promise.reject(StaticError.of('unavailable', UNREACHABLE))
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
    // A newer one may have replaced it.
    if (lane.live !== broken) return
    lane.connection = undefined
    lane.live = undefined
    broken.close().catch(() => {})
  }
}
