/**
 * A transport without a network, for tests of the layers above: the test plays the relay. Chunks arrive whole and in
 * order, when `schedule` delivers them: a test can delay them, or cut the connection and so lose chunks in transit.
 */
import { StaticError } from '@static/protocol'
import type { WireForm } from '@static/protocol/envelope'
import { type CellStream, StreamEvents, type StreamHandlers, type Target, type Transport } from '@static/sdk/internal'

/** The relay's end of a connection. */
export interface MemoryPeer {
  /** The target that the agent dialled. */
  readonly target: Target
  /** The stream to the agent. */
  readonly stream: CellStream
  /** Breaks the connection: data in transit is lost, and both ends are notified immediately. */
  cut(): void
}

/** How connections behave. */
export interface MemoryOptions {
  readonly form?: WireForm
  /** Calls `deliver` when a chunk, or the end, should arrive, in order. In the next microtask by default. */
  readonly schedule?: (deliver: () => void) => void
}

/**
 * Creates the transport. `accept` takes each new connection and returns the receiver of what the agent sends; if it
 * throws, so does `dial`. Ending one end notifies both.
 */
export function makeMemoryTransport(
  accept: (peer: MemoryPeer) => StreamHandlers,
  { form = 'cbor', schedule = queueMicrotask }: MemoryOptions = {},
): Transport {
  return {
    form,
    async dial(target, handlers) {
      let relay: StreamHandlers | undefined
      const toAgent = new StreamEvents(handlers)
      const toRelay = new StreamEvents({
        data: (chunk) => relay?.data(chunk),
        closed: (reason) => relay?.closed(reason),
      })
      const cut = (): void => {
        for (const end of [toAgent, toRelay]) end.closed(StaticError.of('connection_error', 'The line was cut.'))
      }
      relay = await Promise.resolve({ target, stream: makeEnd(toRelay, toAgent, schedule), cut }).then(accept)
      toRelay.begin()
      toAgent.begin()
      return makeEnd(toAgent, toRelay, schedule)
    },
  }
}

function makeEnd(own: StreamEvents, other: StreamEvents, schedule: (deliver: () => void) => void): CellStream {
  let ended = false
  return {
    write(cells) {
      if (ended) return
      const chunk = new Uint8Array(cells)
      schedule(() => other.data(chunk))
    },
    end() {
      if (ended) return
      ended = true
      schedule(() => {
        other.closed(undefined)
        own.closed(undefined)
      })
    },
  }
}
