/**
 * A transport without a network, for tests of what lies above: the test plays the relay. Chunks arrive whole and in
 * order, when `schedule` lets them: a test can hold them back, cut the line, and so lose what is under way.
 */
import { StaticError, type WireForm } from '@static/protocol'
import { type CellStream, Delivery, type StreamHandlers, type Target, type Transport } from '@static/sdk/internal'

/** The relay's end of a line. */
export interface MemoryPeer {
  /** Where the agent has dialled. */
  readonly target: Target
  /** The stream to the agent. */
  readonly stream: CellStream
  /** Breaks the line: what is under way is lost, and both ends hear of it at once. */
  cut(): void
}

/** How lines behave. */
export interface MemoryOptions {
  readonly form?: WireForm
  /** Calls `deliver` when a chunk, or the end, is to arrive; it keeps the order. In the next microtask by default. */
  readonly schedule?: (deliver: () => void) => void
}

/**
 * Makes the transport. `accept` takes each line that is dialled and says who gets what the agent sends; when it throws,
 * so does `dial`. An end that is ended tells both.
 */
export function makeMemoryTransport(
  accept: (peer: MemoryPeer) => StreamHandlers,
  { form = 'cbor', schedule = queueMicrotask }: MemoryOptions = {},
): Transport {
  return {
    form,
    async dial(target, handlers) {
      let relay: StreamHandlers | undefined
      const toAgent = new Delivery(handlers)
      const toRelay = new Delivery({
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

function makeEnd(own: Delivery, other: Delivery, schedule: (deliver: () => void) => void): CellStream {
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
