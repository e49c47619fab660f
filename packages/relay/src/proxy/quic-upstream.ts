/**
 * A few QUIC connections to the nodes of a relay that carry the streams of many agents: in Node a QUIC client connection is
 * expensive, a stream is not. A broken connection takes its streams with it. It is dialed again for the next stream,
 * and periodically, so that an idle proxy finds its relay again after an outage.
 */
import { makeCell, StaticError } from '@static/protocol'
import type { Upstream, UpstreamHandlers, UpstreamStream } from './upstream.ts'
import { connectQuic, type QuicClientStream, type QuicConnection, type QuicTarget } from '@static/node/quic'

interface Lane {
  /** The node to dial first, an index of the targets. */
  node: number
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
/** Time for the streams of a node that sends its sessions elsewhere. */
const RETIRED_MS = 10_000
const UNREACHABLE = 'The relay behind this proxy cannot be reached. Retry.'

/** Connections to one relay, each to one of its nodes. */
export class QuicUpstream implements Upstream {
  readonly #targets: readonly QuicTarget[]
  readonly #lanes: readonly Lane[]
  readonly #now: () => number
  #tending: NodeJS.Timeout | undefined

  /** `targets` are the nodes of one relay. Proxies spread over them: each starts with another one, at random. */
  constructor(targets: readonly QuicTarget[], connections: number, now: () => number, random: () => number) {
    this.#targets = targets.map((target) => ({ idleTimeoutMs: IDLE_MS, ...target }))
    this.#now = now
    const first = Math.floor(random() * targets.length)
    this.#lanes = Array.from({ length: connections }, (_, lane) => ({
      node: (first + lane) % targets.length,
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
      return this.#retirable(lane, connection, connection.openStream(carried))
    } catch {
      this.#forget(lane, connection)
      const next = await this.#connection(lane)
      return this.#retirable(lane, next, next.openStream(carried))
    }
  }

  #retirable(lane: Lane, connection: QuicConnection, stream: QuicClientStream): UpstreamStream {
    return {
      write: (bytes) => stream.write(bytes),
      end: () => stream.end(),
      get bufferedBytes() {
        return stream.bufferedBytes
      },
      retire: () => this.#retire(lane, connection),
    }
  }

  /** Its streams end by themselves: the node has told their agents. */
  #retire(lane: Lane, connection: QuicConnection): void {
    if (this.#targets.length === 1 || lane.live !== connection) return
    lane.node = (lane.node + 1) % this.#targets.length
    lane.connection = undefined
    lane.live = undefined
    setTimeout(() => void connection.close().catch(() => {}), RETIRED_MS).unref()
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
      stream = this.#retirable(lane, connection, connection.openStream({ data: answered, closed: () => {} }))
      stream.write(makeCell('ping'))
    } catch {
      clearTimeout(late)
      this.#forget(lane, connection)
    }
  }

  #connection(lane: Lane): Promise<QuicConnection> {
    if (lane.connection) return lane.connection
    if (this.#now() < lane.failedUntil) return Promise.reject(StaticError.of('unavailable', UNREACHABLE))
    const made = this.#dialNodes(lane)
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

  /** Dials one node after the other until one answers; throws the error of the first. */
  async #dialNodes(lane: Lane): Promise<QuicConnection> {
    let failure: unknown
    for (const _ of this.#targets) {
      const target = this.#targets[lane.node]
      try {
        if (target) return await connectQuic(target)
      } catch (error) {
        failure ??= error
        lane.node = (lane.node + 1) % this.#targets.length
      }
    }
    throw failure
  }

  #forget(lane: Lane, broken: QuicConnection): void {
    // A newer one may have replaced it.
    if (lane.live !== broken) return
    lane.connection = undefined
    lane.live = undefined
    broken.close().catch(() => {})
  }
}
