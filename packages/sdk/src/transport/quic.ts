/**
 * QUIC transport: a connection with one stream that carries CBOR cells. The session above limits the data in flight
 * with its marks, and its pings keep the connection alive.
 */
import { CONNECT_TIMEOUT_MS, dialAddresses } from '@static/node/dial'
import type { QuicClientStream, QuicConnection } from '@static/quic'
import type { CellStream, StreamHandlers, Transport } from '../ports/index.ts'
import { StreamEvents } from './stream-events.ts'
import type { DialOptions } from './dial-options.ts'
import { loadQuic } from './quic-package.ts'

/** A reachable relay has answered by then; otherwise the agent tries another transport. */
const PROBE_AFTER_MS = 500
/** Time for the relay to end its side of a stream. */
const END_MS = 2_000

/** Creates the transport. Outside the main thread, it needs a `shield` that runs on the main thread. */
export function makeQuicTransport({ connectTimeoutMs = CONNECT_TIMEOUT_MS, shield }: DialOptions = {}): Transport {
  return {
    form: 'cbor',
    dial: async (target, handlers) => {
      const { dialQuic } = await loadQuic()
      return await dialAddresses(target, connectTimeoutMs, async (address, timeoutMs) => {
        const limits = { connectTimeoutMs: timeoutMs, probeAfterMs: PROBE_AFTER_MS }
        return openLine(address, await dialQuic(address, { ...target, ...limits }, shield), handlers)
      })
    },
  }
}

function openLine(address: string, connection: QuicConnection, handlers: StreamHandlers): CellStream {
  const events = new StreamEvents(handlers)
  const line = new QuicLine(address, connection, events)
  events.begin()
  return line
}

/** A connection and its only stream. Closing one closes the other. */
class QuicLine implements CellStream {
  readonly address: string
  readonly #connection: QuicConnection
  readonly #stream: QuicClientStream
  #late: NodeJS.Timeout | undefined

  constructor(address: string, connection: QuicConnection, events: StreamEvents) {
    this.address = address
    this.#connection = connection
    try {
      this.#stream = connection.openStream({
        data: (chunk) => events.data(chunk),
        ended: () => this.end(),
        closed: (reason) => {
          events.closed(reason)
          this.#hangUp()
        },
      })
    } catch (error) {
      this.#hangUp()
      throw error
    }
  }

  write(cells: Uint8Array): void {
    this.#stream.write(cells)
  }

  end(): void {
    if (this.#stream.isOver) return
    this.#stream.end()
    // The stream closes once the relay has read everything and ended its side. The connection is closed either way.
    this.#late = setTimeout(() => this.#hangUp(), END_MS)
  }

  #hangUp(): void {
    clearTimeout(this.#late)
    this.#connection.close().catch(() => {})
  }
}
