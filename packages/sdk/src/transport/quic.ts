/**
 * The relay by QUIC: a connection with one stream, CBOR in its cells. What the stream takes and brings is bounded by the
 * session above, by its marks; its pings keep the connection alive.
 */
import { CONNECT_TIMEOUT_MS, dialAddresses } from '@static/node/dial'
import { dialQuic, type QuicClientStream, type QuicConnection } from '@static/node/quic'
import type { CellStream, StreamHandlers, Transport } from '../ports.ts'
import { Delivery } from './delivery.ts'
import type { DialOptions } from './dial-options.ts'

/** A relay that is there has answered by then; an agent has another way to try. */
const PROBE_AFTER_MS = 500
/** How long the relay may take to answer the end of a stream with its own. */
const END_MS = 2_000

/** Makes the transport. Other threads than the main one need a `shield` that has it done there. */
export function makeQuicTransport({ connectTimeoutMs = CONNECT_TIMEOUT_MS, shield }: DialOptions = {}): Transport {
  return {
    form: 'cbor',
    dial: (target, handlers) =>
      dialAddresses(target, connectTimeoutMs, async (address) => {
        const connection = await dialQuic(
          address,
          { ...target, connectTimeoutMs, probeAfterMs: PROBE_AFTER_MS },
          shield,
        )
        return openLine(connection, handlers)
      }),
  }
}

function openLine(connection: QuicConnection, handlers: StreamHandlers): CellStream {
  const delivery = new Delivery(handlers)
  const line = new QuicLine(connection, delivery)
  delivery.begin()
  return line
}

/** A connection and its only stream: one takes the other along. */
class QuicLine implements CellStream {
  readonly #connection: QuicConnection
  readonly #stream: QuicClientStream
  #late: NodeJS.Timeout | undefined

  constructor(connection: QuicConnection, delivery: Delivery) {
    this.#connection = connection
    try {
      this.#stream = connection.openStream({
        data: (chunk) => delivery.data(chunk),
        ended: () => this.end(),
        closed: (reason) => {
          delivery.closed(reason)
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
    // The stream closes when the relay has read everything and ended its side; the connection goes either way.
    this.#late = setTimeout(() => this.#hangUp(), END_MS)
  }

  #hangUp(): void {
    clearTimeout(this.#late)
    this.#connection.close().catch(() => {})
  }
}
