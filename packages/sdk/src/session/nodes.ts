/** The addresses of a relay's nodes, in the order in which this agent dials them. */
import type { Time } from '../ports/index.ts'

/** A rotation over the addresses of an endpoint. */
export class Nodes {
  readonly #order: readonly number[]
  /** Until when nodes are skipped because another server answers there, by index. */
  readonly #untrusted = new Map<number, Time>()
  #at = 0
  /** Whether the next dial avoids the last node, if the name in its address also resolves to others. */
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

  /** Moves on to another node, or just to the next one if other servers answer at all of them. */
  next(now: Time): void {
    this.avoidsLast = true
    const start = this.#at
    for (let step = 1; step <= this.#order.length; step++) {
      this.#at = (start + step) % this.#order.length
      if (!this.#isUntrusted(this.current, now)) return
    }
    this.#at = (start + 1) % this.#order.length
  }

  /** Another server answers at the current node. Returns whether there is another node to move on to. */
  distrust(now: Time, until: Time): boolean {
    this.#untrusted.set(this.current, until)
    return this.#order.some((node) => !this.#isUntrusted(node, now))
  }

  #isUntrusted(node: number, now: Time): boolean {
    return (this.#untrusted.get(node) ?? -Infinity) > now
  }

  /** The current node works. */
  opened(): void {
    this.#untrusted.delete(this.current)
    this.avoidsLast = false
  }
}
