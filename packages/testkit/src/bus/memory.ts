/** A message service in memory that can be as bad as a network: it drops, doubles, delays and reorders, by a seed. */
import type { BusWire, OpenWire, WireListener } from '@static/relay/internal'

/** Faults, as shares from 0 to 1. */
export interface BusFaults {
  drop: number
  double: number
  /** Arrives long after later messages. */
  late: number
}

/** Options of a bus. */
export interface MemoryBusOptions {
  readonly random: () => number
  /** Runs a delivery some time later; the caller decides the order. */
  readonly post: (deliver: () => void, isLate: boolean) => void
  /** Carries out a node's requests in order, some time later: until then it gets nothing on a new subject. */
  readonly arrange?: (act: () => void, end: number) => void
  readonly maxBytes?: number
}

interface End {
  readonly listener: WireListener
  readonly subjects: Set<string>
  connected: boolean
}

const MAX_BYTES = 1024 * 1024

/** The middle of a bus. */
export class MemoryBus {
  readonly faults: BusFaults = { drop: 0, double: 0, late: 0 }
  /** Everything that was published, for tests that inspect or replay it. */
  readonly carried: { readonly subject: string; readonly bytes: Uint8Array }[] = []
  readonly #options: MemoryBusOptions
  readonly #ends: End[] = []
  #opened = 0

  constructor(options: MemoryBusOptions) {
    this.#options = options
  }

  /** Opens a wire of one node. */
  readonly wire: OpenWire = (listener) => {
    const end: End = { listener, subjects: new Set(), connected: true }
    this.#ends.push(end)
    const { maxBytes = MAX_BYTES, arrange = (act) => act() } = this.#options
    const number = ++this.#opened
    const wire: BusWire = {
      get connected() {
        return end.connected
      },
      get hears() {
        return end.connected
      },
      maxBytes,
      publish: (subject, bytes) => {
        if (!end.connected) return
        this.carried.push({ subject, bytes })
        this.#carry(subject, bytes, end)
      },
      subscribe: (subject) => arrange(() => end.subjects.add(subject), number),
      unsubscribe: (subject) => arrange(() => end.subjects.delete(subject), number),
      close: () => {
        end.connected = false
        this.#ends.splice(this.#ends.indexOf(end), 1)
        return Promise.resolve()
      },
    }
    return wire
  }

  /** Cuts off or reconnects all nodes, or only one, counted from 0 in the order of their start. */
  connect(connected: boolean, at?: number): void {
    for (const end of at === undefined ? [...this.#ends] : this.#ends.slice(at, at + 1)) {
      end.connected = connected
      end.listener.changed()
    }
  }

  /** Delivers bytes to all listeners, as anyone with access to the service can. */
  inject(subject: string, bytes: Uint8Array): void {
    this.#carry(subject, bytes, undefined)
  }

  #carry(subject: string, bytes: Uint8Array, from: End | undefined): void {
    const { random, post } = this.#options
    for (const end of this.#ends) {
      if (end === from || !end.subjects.has(subject) || random() < this.faults.drop) continue
      const deliver = (): void => {
        if (end.connected && end.subjects.has(subject)) end.listener.received(subject, bytes)
      }
      post(deliver, random() < this.faults.late)
      if (random() < this.faults.double) post(deliver, random() < this.faults.late)
    }
  }
}
