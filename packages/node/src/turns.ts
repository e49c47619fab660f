/**
 * Work in turns: a few pieces in each turn of the event loop, one of each subject after the other. So a burst of one
 * subject holds up neither the other subjects nor the work that does not wait for a turn.
 */

/** What to do, and how. */
export interface TurnsOptions<Item> {
  readonly perTurn: number
  readonly run: (item: Item) => void
  /** Whether a waiting piece needs no work any more; it takes no turn then. */
  readonly isGone: (item: Item) => boolean
  /** Calls back in the next turn of the event loop. */
  readonly nextTurn: (act: () => void) => void
}

/** Pieces of work that are done soon. */
export class Turns<Item> {
  readonly #options: TurnsOptions<Item>
  /** Those that wait, by subject; the first is next. */
  readonly #waiting = new Map<string, Item[]>()
  #done = 0
  #isScheduled = false

  constructor(options: TurnsOptions<Item>) {
    this.#options = options
  }

  /** Does it now if nobody waits, otherwise when it is the subject's turn. Pieces of one subject keep their order. */
  add(subject: string, item: Item): void {
    if (this.#done < this.#options.perTurn && this.#waiting.size === 0) return this.#run(item)
    const own = this.#waiting.get(subject)
    if (own) own.push(item)
    else this.#waiting.set(subject, [item])
    this.#schedule()
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

  /** Takes the first piece of the first subject that still needs work; the subject goes to the end. */
  #next(): Item | undefined {
    for (const [subject, own] of this.#waiting) {
      this.#waiting.delete(subject)
      const at = own.findIndex((item) => !this.#options.isGone(item))
      if (at === -1) continue
      const [item] = own.splice(0, at + 1).slice(-1)
      if (own.length > 0) this.#waiting.set(subject, own)
      return item
    }
    return undefined
  }
}
