/**
 * Work in turns: a few pieces in each turn of the event loop, one of each address after the other. So a burst of one
 * address holds up neither the other addresses nor the work that does not wait for a turn. Who has a /48 has 65,536
 * addresses, so all of a /48 together have the turns of a few of them only.
 */
import { NETWORK_SHARES, networkOf } from '@static/protocol'

export interface TurnsOptions<Item> {
  readonly perTurn: number
  readonly run: (item: Item) => void
  /** Whether a waiting piece needs no work any more; it takes no turn then. */
  readonly isGone: (item: Item) => boolean
  /** Calls back in the next turn of the event loop. */
  readonly nextTurn: (act: () => void) => void
}

/** A /48 with its addresses, or an address that is in none. */
interface Network<Item> {
  readonly key: string
  /** The pieces that wait, by address; the first address is next. */
  readonly waiting: Map<string, Item[]>
  /** How often it is in the rota. */
  places: number
}

/** A place in the rota. */
interface Place<Item> {
  readonly network: Network<Item>
}

/** Pieces of work that are done soon. */
export class Turns<Item> {
  readonly #options: TurnsOptions<Item>
  readonly #networks = new Map<string, Network<Item>>()
  /** Whose turn it is; the first is next. A network has a place for each of its addresses, but only a few. */
  readonly #rota = new Set<Place<Item>>()
  #done = 0
  #isScheduled = false

  constructor(options: TurnsOptions<Item>) {
    this.#options = options
  }

  /**
   * Does it now if nobody waits, otherwise when it is the turn of its address, in the form that limits count by. Pieces of
   * one address keep their order.
   */
  add(address: string, item: Item): void {
    if (this.#done < this.#options.perTurn && this.#rota.size === 0) return this.#run(item)
    const network = this.#networkOf(address)
    const own = network.waiting.get(address)
    if (own) own.push(item)
    else network.waiting.set(address, [item])
    if (network.places < placesFor(network)) {
      network.places++
      this.#rota.add({ network })
    }
    this.#schedule()
  }

  #networkOf(address: string): Network<Item> {
    const key = networkOf(address) ?? address
    const known = this.#networks.get(key)
    if (known) return known
    const network = { key, waiting: new Map<string, Item[]>(), places: 0 }
    this.#networks.set(key, network)
    return network
  }

  #run(item: Item): void {
    this.#done++
    this.#schedule()
    this.#options.run(item)
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#options.nextTurn(() => {
      this.#isScheduled = false
      this.#done = 0
      while (this.#done < this.#options.perTurn) {
        const item = this.#next()
        if (item === undefined) return
        this.#run(item)
      }
    })
  }

  /** Takes a piece of the first network that has one; its place goes to the end. */
  #next(): Item | undefined {
    for (const place of this.#rota) {
      const { network } = place
      this.#rota.delete(place)
      const item = this.#take(network)
      if (network.places <= placesFor(network)) this.#rota.add(place)
      else if (--network.places === 0) this.#networks.delete(network.key)
      if (item !== undefined) return item
    }
    return undefined
  }

  /** Takes the first piece of the first address that still needs work; the address goes to the end. */
  #take({ waiting }: Network<Item>): Item | undefined {
    for (const [address, own] of waiting) {
      waiting.delete(address)
      const at = own.findIndex((item) => !this.#options.isGone(item))
      if (at === -1) continue
      const [item] = own.splice(0, at + 1).slice(-1)
      if (own.length > 0) waiting.set(address, own)
      return item
    }
    return undefined
  }
}

function placesFor({ waiting }: Network<unknown>): number {
  return Math.min(waiting.size, NETWORK_SHARES)
}
