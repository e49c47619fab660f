/**
 * Bounds the memory that a port holds for its callers: requests being read or handled, and answers until they are read.
 * A call counts with their bytes plus its own overhead.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { NETWORK_SHARES, networkLimit, networkOf } from '@static/protocol'

/** The overhead of a call: its stream, its headers and the state of its handler. */
export const CALL_BYTES: number = 32 * 1024

/**
 * The same while the relay handles the call of a known agent. Less, because the limits of streams apply then; but not
 * zero, because they apply only once it is the call's turn.
 */
export const HANDLED_BYTES: number = 4 * 1024

/** How many turns of the event loop `takeSoon` waits: answers that are read are released one turn later. */
const MOST_TURNS = 32

/** The memory that one call holds. */
export interface Holding {
  /** Reserves more bytes; returns false if that would exceed a limit, or if the call is over. */
  take(bytes: number): boolean
  /** The same, but waits a few turns for room, so that only unread answers count and not a burst of calls. */
  takeSoon(bytes: number): Promise<boolean>
  give(bytes: number): void
  /** Gives everything back, at the end of the call. */
  close(): void
}

interface Call {
  readonly address: string
  /** The /48 of the address; if it has none, the address again. */
  readonly network: string
  readonly cut: () => void
  bytes: number
  closed: boolean
}

/**
 * Limits the bytes held at once in total, per address and per /48. When the total is used up, the heaviest holders lose
 * calls to others, so that a few do not keep everyone out.
 */
export class CallBudget {
  readonly #most: number
  readonly #mostPerAddress: number
  /** Bytes by address, and by /48. */
  readonly #perSource = new Map<string, number>()
  /** The calls that hold something, by network and address. */
  readonly #calls = new Map<string, Map<string, Set<Call>>>()
  /**
   * An upper bound on the weight of any network: often shows without a search that no one holds more than the caller.
   */
  #heaviest = 0
  #held = 0

  constructor(most: number, mostPerAddress: number) {
    this.#most = most
    this.#mostPerAddress = mostPerAddress
  }

  /** Begins a call of an address as limits count it. `cut` must end it at once, because others need the memory. */
  open(address: string, cut: () => void): Holding {
    const call: Call = { address, network: networkOf(address) ?? address, cut, bytes: 0, closed: false }
    return {
      take: (bytes) => this.#take(call, bytes),
      takeSoon: (bytes) => this.#takeSoon(call, bytes),
      give: (bytes) => this.#count(call, -Math.min(bytes, call.bytes)),
      close: () => this.#close(call),
    }
  }

  async #takeSoon(call: Call, bytes: number): Promise<boolean> {
    for (let turn = 0; turn < MOST_TURNS && !call.closed; turn++) {
      if (this.#take(call, bytes)) return true
      await nextTurn()
    }
    return false
  }

  #take(call: Call, bytes: number): boolean {
    const { address, network } = call
    if (call.closed || this.#heldBy(address) + bytes > this.#mostPerAddress) return false
    const mostPerNetwork = networkLimit(this.#mostPerAddress, this.#most)
    if (network !== address && this.#heldBy(network) + bytes > mostPerNetwork) return false
    while (this.#held + bytes > this.#most) {
      const largest = this.#largest(this.#weigh(network, bytes))
      if (largest === undefined) return false
      this.#close(largest)
      largest.cut()
    }
    this.#count(call, bytes)
    return true
  }

  /**
   * What each address of a network holds. The owner of a /48 has 65,536 subnets, so its addresses count together, as at
   * most 16. `more` is added to its current bytes.
   */
  #weigh(network: string, more = 0): number {
    const addresses = Math.max(1, this.#calls.get(network)?.size ?? 0)
    return (this.#heldBy(network) + more) / Math.min(addresses, NETWORK_SHARES)
  }

  /** The largest call of the heaviest address of the heaviest network, if that weighs more than `least`. */
  #largest(least: number): Call | undefined {
    if (this.#heaviest <= least) return undefined
    const network = most(this.#calls.keys(), (key) => this.#weigh(key))
    this.#heaviest = network === undefined ? 0 : this.#weigh(network)
    if (network === undefined || this.#heaviest <= least) return undefined
    const addresses = this.#calls.get(network) ?? new Map<string, Set<Call>>()
    const address = most(addresses.keys(), (key) => this.#heldBy(key))
    return most(addresses.get(address ?? '') ?? [], ({ bytes }) => bytes)
  }

  #close(call: Call): void {
    this.#count(call, -call.bytes)
    call.closed = true
  }

  #heldBy(key: string): number {
    return this.#perSource.get(key) ?? 0
  }

  #count(call: Call, bytes: number): void {
    const { address, network } = call
    call.bytes += bytes
    this.#held += bytes
    for (const key of network === address ? [address] : [address, network]) {
      const held = this.#heldBy(key) + bytes
      if (held > 0) this.#perSource.set(key, held)
      else this.#perSource.delete(key)
    }
    this.#list(call)
    this.#heaviest = Math.max(this.#heaviest, this.#weigh(network))
  }

  /** Updates the lists of calls that hold something. */
  #list(call: Call): void {
    const { address, network } = call
    const addresses = this.#calls.get(network) ?? new Map<string, Set<Call>>()
    const calls = addresses.get(address) ?? new Set()
    if (call.bytes > 0) {
      this.#calls.set(network, addresses.set(address, calls.add(call)))
    } else if (calls.delete(call) && calls.size === 0) {
      addresses.delete(address)
      if (addresses.size === 0) this.#calls.delete(network)
    }
  }
}

/** The first of those that weigh most. */
function most<Item>(items: Iterable<Item>, weigh: (item: Item) => number): Item | undefined {
  let best: Item | undefined
  let highest = -Infinity
  for (const item of items) {
    const weight = weigh(item)
    if (weight > highest) [best, highest] = [item, weight]
  }
  return best
}
