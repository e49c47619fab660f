/** Logs what happens often: at most a line a minute for each kind, with a count. */

const WINDOW_MS = 60_000
/** Kinds come from fixed lists in the code; this bounds a mistake. */
const MOST_KINDS = 256

/** Counts events by kind, and lets one of them through for each minute. */
export class RepeatLog {
  readonly #now: () => number
  readonly #kinds = new Map<string, { readonly at: number; more: number }>()

  /** `now` is a monotonic clock, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Calls `write` with the number of events since its last call, this one included; otherwise only counts. */
  note(kind: string, write: (count: number) => void): void {
    const now = this.#now()
    const last = this.#kinds.get(kind)
    if (last && now - last.at < WINDOW_MS) {
      last.more++
      return
    }
    if (this.#kinds.size >= MOST_KINDS) this.#kinds.clear()
    this.#kinds.set(kind, { at: now, more: 0 })
    write(1 + (last?.more ?? 0))
  }
}
