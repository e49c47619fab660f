/** The addresses of a relay's nodes, in the order in which this agent dials them. */

/** A rotation over the addresses of an endpoint. */
export class Nodes {
  readonly #order: readonly number[]
  #at = 0
  /** Whether the next dial avoids the node of the last one, if the name of its address leads to others, too. */
  avoidsLast = false

  /** `random` returns numbers from 0 up to 1, exclusive: agents with the same endpoint spread over its nodes. */
  constructor(count: number, random: () => number) {
    const order = Array.from({ length: count }, (_, index) => index)
    for (let at = count - 1; at > 0; at--) {
      const other = Math.floor(random() * (at + 1))
      const [one = 0, two = 0] = [order[at], order[other]]
      order[at] = two
      order[other] = one
    }
    this.#order = order
  }

  /** Index of the address to dial. */
  get current(): number {
    return this.#order[this.#at] ?? 0
  }

  /** Turns to another node. */
  next(): void {
    this.#at = (this.#at + 1) % this.#order.length
    this.avoidsLast = true
  }

  /** The current node works. */
  opened(): void {
    this.avoidsLast = false
  }
}
