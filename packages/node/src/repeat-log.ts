/** Logs frequent events: a few lines a minute for each kind, with a count of those left out. */

const WINDOW_MS = 60_000
/** Peers may be able to cause many kinds. Further ones count as one. */
const MOST_KINDS = 256
const OTHERS = 'others'

/** Counts events by kind, and passes on a few of them each minute. */
export class RepeatLog {
  readonly #now: () => number
  readonly #lines: number
  /** The kinds by last use, oldest first. */
  readonly #kinds = new Map<string, { readonly at: number; lines: number; more: number }>()

  /** `now` is a monotonic clock, in milliseconds; `lines` is the maximum for one kind in a minute. */
  constructor(now: () => number, lines = 1) {
    this.#now = now
    this.#lines = lines
  }

  /** Calls `write` with the number of events since its last call, this one included; otherwise only counts. */
  note(kind: string, write: (count: number) => void): void {
    const now = this.#now()
    const known = this.#knows(kind, now) ? kind : OTHERS
    const last = this.#kinds.get(known)
    if (last && now - last.at < WINDOW_MS) {
      if (last.lines === this.#lines) {
        last.more++
        return
      }
      last.lines++
      return write(1)
    }
    this.#kinds.delete(known)
    this.#kinds.set(known, { at: now, lines: 1, more: 0 })
    write(1 + (last?.more ?? 0))
  }

  /** Whether a kind is counted separately. Makes room for it by forgetting kinds whose minute is over. */
  #knows(kind: string, now: number): boolean {
    if (this.#kinds.has(kind) || this.#kinds.size < MOST_KINDS) return true
    for (const [other, { at }] of this.#kinds) {
      if (now - at < WINDOW_MS) break
      this.#kinds.delete(other)
    }
    return this.#kinds.size < MOST_KINDS
  }
}
