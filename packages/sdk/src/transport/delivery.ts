/**
 * Hands over what a stream brings, as `StreamHandlers` promises it: nothing before the caller has the stream in hands,
 * nothing after the last word, and that once.
 */
import type { StaticError } from '@static/protocol'
import type { StreamHandlers } from '../ports.ts'

/** What a stream has to say to its handlers. */
export class Delivery {
  readonly #handlers: StreamHandlers
  /** What came before the caller could have the stream; undefined once it has. */
  #early: (() => void)[] | undefined = []
  #over = false

  constructor(handlers: StreamHandlers) {
    this.#handlers = handlers
  }

  /** To be called right before `dial` returns: what waits is handed over once the caller has had its turn. */
  begin(): void {
    // Every microtask, and so every `await` on the way to the caller, comes before an immediate.
    setImmediate(() => {
      const early = this.#early ?? []
      this.#early = undefined
      for (const say of early) say()
    })
  }

  data(chunk: Uint8Array): void {
    if (this.#over || chunk.length === 0) return
    this.#say(() => this.#handlers.data(chunk))
  }

  closed(reason: StaticError | undefined): void {
    if (this.#over) return
    this.#over = true
    this.#say(() => this.#handlers.closed(reason))
  }

  #say(words: () => void): void {
    if (this.#early === undefined) words()
    else this.#early.push(words)
  }
}
