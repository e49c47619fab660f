/**
 * A few QUIC connections to the nodes of a relay that carry the streams of many agents: in Node a QUIC client
 * connection is expensive, but a stream is not. A broken connection takes its streams with it. It is redialed for the
 * next stream, and periodically, so that an idle proxy finds its relay again after an outage. A broken stream affects
 * no other: the relay may have reset only that one, for something its agent did.
 */
import { ConnectionError } from '@static/node/connection-error'
import { makeCell, StaticError } from '@static/protocol'
import type { Upstream, UpstreamHandlers, UpstreamStream } from './upstream.ts'
import { connectQuic, type QuicClientStream, type QuicConnection, type QuicTarget } from '@static/quic'

interface Lane {
  /** The node to dial first, an index of the targets. */
  node: number
  connection: Promise<QuicConnection> | undefined
  /** The established connection. */
  live: QuicConnection | undefined
  /** The connection that was probed and has not answered yet. */
  probed: QuicConnection | undefined
  streams: number
  /** Not redialed before this time. */
  failedUntil: number
}

/** Pause after a failed dial. */
const PAUSE_MS = 500
/** Interval for probing idle connections and redialing lost ones. */
const TEND_MS = 2000
/** Time after which a silent relay is considered gone. */
const IDLE_MS = 6000
const PROBE_MS = 4000
/** How long streams of a node that sends its sessions elsewhere may continue. */
const RETIRED_MS = 10_000
const NO_STREAM = 'This proxy has no free stream to its relay. Retry.'
const UNREACHABLE = 'The relay behind this proxy cannot be reached. Retry.'

/** Connections to one relay, each to one of its nodes. */
export class QuicUpstream implements Upstream {
  readonly #targets: readonly QuicTarget[]
  readonly #lanes: readonly Lane[]
  readonly #now: () => number
  #tending: NodeJS.Timeout | undefined

  /** `targets` are the nodes of one relay. Each proxy starts with a random one, so that proxies spread over them. */
  constructor(targets: readonly QuicTarget[], connections: number, now: () => number, random: () => number) {
    this.#targets = targets.map((target) => ({ idleTimeoutMs: IDLE_MS, ...target }))
    this.#now = now
    const first = Math.floor(random() * targets.length)
    this.#lanes = Array.from({ length: connections }, (_, lane) => ({
      node: (first + lane) % targets.length,
      connection: undefined,
      live: undefined,
      probed: undefined,
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
      const text = isFull(cause) ? NO_STREAM : 'The relay is unreachable.'
      throw StaticError.of('unavailable', text, { cause, retryAfter: 1 })
    }
  }

  /** Opens a stream on the lane's connection, or on a new one if that turns out to be closed. */
  async #stream(lane: Lane, handlers: UpstreamHandlers): Promise<UpstreamStream> {
    const connection = await this.#connection(lane)
    try {
      return this.#carry(lane, connection, handlers)
    } catch (error) {
      if (isFull(error)) throw error
      this.#forget(lane, connection)
      return this.#carry(lane, await this.#connection(lane), handlers)
    }
  }

  #carry(lane: Lane, connection: QuicConnection, handlers: UpstreamHandlers): UpstreamStream {
    const stream = connection.openStream({
      data: (bytes) => handlers.data(bytes),
      closed: (reason) => {
        lane.streams--
        // The connection itself may be broken, or the relay has reset only this stream.
        if (reason !== undefined) this.#probe(lane, connection)
        handlers.closed(reason)
      },
    })
    return {
      write: (bytes) => stream.write(bytes),
      end: () => stream.end(),
      get bufferedBytes() {
        return stream.bufferedBytes
      },
      retire: () => this.#retire(lane, connection),
    }
  }

  /** Its streams end by themselves: the node has told their agents to reconnect. */
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
   * Checks on a separate stream whether the relay is alive, because the library's own ping blocks the whole process. An
   * overloaded relay may end that stream instead of answering, which shows the same.
   */
  #probe(lane: Lane, connection: QuicConnection): void {
    if (lane.live !== connection || lane.probed === connection) return
    lane.probed = connection
    const late = setTimeout(() => this.#forget(lane, connection), PROBE_MS)
    const alive = (): void => {
      clearTimeout(late)
      if (lane.probed === connection) lane.probed = undefined
    }
    const answered = (): void => {
      alive()
      stream.end()
    }
    let stream: QuicClientStream
    try {
      stream = connection.openStream({ data: answered, closed: alive })
      stream.write(makeCell('ping'))
    } catch (error) {
      alive()
      // If no stream is left, the open ones keep the connection busy, and its idle timeout detects an outage.
      if (!isFull(error)) this.#forget(lane, connection)
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

/** Whether an open connection has no free stream. */
function isFull(error: unknown): boolean {
  return error instanceof ConnectionError && error.reason === 'no_stream'
}
