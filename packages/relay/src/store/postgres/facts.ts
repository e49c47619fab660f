/**
 * The rows that a transaction has read. The ledger decides synchronously; when it asks for something that was not read
 * yet, it is stopped, the rows are fetched in the same transaction, and the whole batch is decided again.
 */

/** Stops the ledger: something must be fetched first. */
export class Missing extends Error {
  readonly fetch: () => Promise<unknown>

  constructor(fetch: () => Promise<unknown>) {
    super('rows must be fetched first')
    this.fetch = fetch
  }
}

/**
 * Stops a batch of messages that turns out to change more than its own rows: it needs a transaction of several
 * statements.
 */
export class Unforeseen extends Error {
  constructor() {
    super('the batch needs more than one statement')
  }
}

/** Another node has changed what this transaction reads without a lock: it is retried, as after a conflict. */
export class Stale extends Error {
  readonly code = '40001'

  constructor(what: string) {
    super(`${what} was deleted meanwhile`)
  }
}

/** Fetched rows by key. */
export class Facts {
  readonly #known = new Map<string, unknown>()
  /** Fetches under way: several calls of a batch may miss the same rows. */
  readonly #asked = new Map<string, Promise<unknown>>()

  /** Throws `Missing` if it was not fetched. */
  need<Fact>(key: string, fetch: () => Promise<Fact>): Fact {
    if (this.#known.has(key)) return this.#known.get(key) as Fact
    throw new Missing(() => this.#fetch(key, fetch))
  }

  has(key: string): boolean {
    return this.#known.has(key)
  }

  get(key: string): unknown {
    return this.#known.get(key)
  }

  set(key: string, fact: unknown): void {
    this.#known.set(key, fact)
  }

  clear(): void {
    this.#known.clear()
    this.#asked.clear()
  }

  #fetch(key: string, fetch: () => Promise<unknown>): Promise<unknown> {
    const asked = this.#asked.get(key)
    if (asked) return asked
    const fetched = fetch()
      .then((fact) => this.#known.set(key, fact))
      .finally(() => this.#asked.delete(key))
    this.#asked.set(key, fetched)
    return fetched
  }
}

/** The rows of one kind: what was fetched of them, and what the batch has changed. */
export interface Table {
  /** A transaction begins: forgets everything. */
  begin(): void
  /** The batch is decided again: forgets its changes, not what was fetched. */
  rewind(): void
  /** Sends the changes. */
  write(): void
}
