/**
 * The contents of answers to a host. Only the host's next request shows that it has seen an answer, and only if that
 * request arrived after the answer was written: hosts may send requests without waiting for answers.
 */

/** The id of a request of the host. */
export type RequestId = string | number

interface Given<Item> {
  readonly items: readonly Item[]
  /** When the answer was written. */
  written?: number
}

/** The contents of answers that the host may not have seen. */
export class HandedOver<Item> {
  readonly #given = new Map<RequestId, Given<Item>>()
  /** When the unanswered requests arrived. */
  readonly #arrivals = new Map<RequestId, number>()
  /** A logical clock: counts arrivals of requests and writes of answers. */
  #moment = 0

  /** A request for any tool has arrived. */
  arrived(request: RequestId): void {
    this.#arrivals.set(request, ++this.#moment)
  }

  /** The answer to a request will contain these. */
  give(request: RequestId, items: readonly Item[]): void {
    this.#given.set(request, { items })
  }

  /** The answer to a request was written. */
  answered(request: RequestId): void {
    this.#arrivals.delete(request)
    const given = this.#given.get(request)
    if (given) given.written = ++this.#moment
  }

  /** The host dropped the answer to a request. Returns its content. */
  dropped(request: RequestId): readonly Item[] {
    this.#arrivals.delete(request)
    const given = this.#given.get(request)
    this.#given.delete(request)
    return given?.items ?? []
  }

  /** Forgets the contents of answers that were written before a request arrived, and returns them. */
  seenBefore(request: RequestId): Item[] {
    const arrival = this.#arrivals.get(request) ?? 0
    const seen = [...this.#given].filter(([, { written = Infinity }]) => written < arrival)
    for (const [answered] of seen) this.#given.delete(answered)
    return seen.flatMap(([, { items }]) => items)
  }
}
