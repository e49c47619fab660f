/** Streams without sockets: agents and a driver joined in memory. */
import type { WireForm } from '@static/protocol/envelope'
import type { Peer, StreamHandler, StreamId, Transport } from '../../src/ports.ts'
import type { Wire, WireHandlers } from '@static/testkit/agent'

/** Both ends of a transport. */
export class MemoryTransport implements Transport {
  readonly #handler: StreamHandler
  readonly #streams = new Map<StreamId, WireHandlers>()

  constructor(handler: (transport: () => Transport) => StreamHandler) {
    this.#handler = handler(() => this)
  }

  /** The agents' end. */
  wire(form: WireForm, address = '192.0.2.1', proxy = false, more: Partial<Peer> = {}): Wire {
    return {
      form,
      open: (handlers) => {
        const transport = form === 'cbor' ? 'quic' : 'grpc'
        const id = this.#handler.opened({ transport, form, address, proxy, ...more })
        if (id === undefined) throw new Error('The stream was turned away.')
        this.#streams.set(id, handlers)
        return Promise.resolve({
          write: (bytes) => {
            if (this.#streams.has(id)) this.#handler.received(id, bytes)
          },
          end: () => {
            if (!this.#streams.delete(id)) return
            this.#handler.closed(id)
            handlers.closed()
          },
        })
      },
    }
  }

  write(streams: readonly StreamId[], cells: Uint8Array): void {
    for (const id of streams) this.#streams.get(id)?.data(cells)
  }

  /** Agents of these tests have no clock. */
  pace(): void {}

  end(stream: StreamId): void {
    const handlers = this.#streams.get(stream)
    this.#streams.delete(stream)
    handlers?.closed()
  }

  stop(): Promise<void> {
    for (const id of this.#streams.keys()) this.end(id)
    return Promise.resolve()
  }
}
