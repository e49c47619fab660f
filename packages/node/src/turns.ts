/**
 * Work in turns: a few pieces in each turn of the event loop, with addresses taking turns. So a burst from one address
 * delays neither other addresses nor work that does not take turns. A /48 contains 65,536 addresses, so all of a /48
 * together get the turns of only a few.
 */
import { NETWORK_SHARES, networkOf } from '@static/protocol'

export interface TurnsOptions<Item> {
  readonly perTurn: number
  readonly run: (item: Item) => void
  /** Whether a waiting piece no longer needs work; it then takes no turn. */
  readonly isGone: (item: Item) => boolean
  /** Calls back in the next turn of the event loop. */
  readonly nextTurn: (act: () => void) => void
}

/** A /48 with its addresses, or a single address outside any /48. */
interface Network<Item> {
  readonly key: string
  /** The waiting pieces, by address; the first address is next. */
  readonly waiting: Map<string, Item[]>
  /** How often it is in the rota. */
  places: number
}

/** A place in the rota. */
interface Place<Item> {
  readonly network: Network<Item>
}

/** Pieces of work, each of which is short. */
export class Turns<Item> {
  readonly #options: TurnsOptions<Item>
  readonly #networks = new Map<string, Network<Item>>()
  /** The order of turns; the first is next. A network has a place for each of its addresses, up to a few. */
  readonly #rota = new Set<Place<Item>>()
  #done = 0
  #isScheduled = false

  constructor(options: TurnsOptions<Item>) {
    this.#options = options
  }

  /**
   * Does it at once if nothing waits, otherwise when its address has its turn. The address has the form used by limits.
   * Pieces of one address keep their order.
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

  /** Takes a piece from the first network that has one; its place moves to the end. */
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

  /** Takes the first piece of the first address that still needs work; the address moves to the end. */
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
