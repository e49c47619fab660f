/**
 * Delivers the events of a stream as `StreamHandlers` promises: nothing before the caller has the stream, nothing after
 * `closed`, and `closed` once.
 */
import type { StaticError } from '@static/protocol'
import type { StreamHandlers } from '../ports/index.ts'

/** Delivers the events of one stream. */
export class StreamEvents {
  readonly #handlers: StreamHandlers
  /** Events that came before the caller has the stream; undefined afterwards. */
  #early: (() => void)[] | undefined = []
  #over = false

  constructor(handlers: StreamHandlers) {
    this.#handlers = handlers
  }

  /** Call this right before `dial` returns. Queued events are delivered once the caller has had its turn. */
  begin(): void {
    // All microtasks, and so every `await` up to the caller, run before an immediate.
    setImmediate(() => {
      const early = this.#early ?? []
      this.#early = undefined
      for (const deliver of early) deliver()
    })
  }

  data(chunk: Uint8Array): void {
    if (this.#over || chunk.length === 0) return
    this.#deliver(() => this.#handlers.data(chunk))
  }

  closed(reason: StaticError | undefined): void {
    if (this.#over) return
    this.#over = true
    this.#deliver(() => this.#handlers.closed(reason))
  }

  #deliver(event: () => void): void {
    if (this.#early === undefined) event()
    else this.#early.push(event)
  }
}
