/** A request that is being served, and its early end. */
import type { StaticError } from '@static/protocol'
import type { InboxEntry } from '../receiving/inbox.ts'
import type { Answering } from './answering.ts'

/** One request on its way through a server. */
export class Job {
  readonly entry: InboxEntry
  answering: Answering | undefined
  /** Settles when its handler has ended, possibly long after the request. */
  handled: Promise<unknown> = Promise.resolve()
  /** Settles when its handler has yielded its next answer or has ended. */
  step: Promise<unknown> = Promise.resolve()
  failures = 0
  readonly #abort = new AbortController()
  readonly #aborted = Promise.withResolvers<undefined>()
  #isAborted = false
  #over: PromiseWithResolvers<boolean> | undefined
  #isAnswered: boolean | undefined

  constructor(entry: InboxEntry) {
    this.entry = entry
  }

  /** For the handler. Node creates a signal on first use: most handlers use none, and each costs memory. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Whether no more answers are wanted. */
  get isAborted(): boolean {
    return this.#isAborted
  }

  /** Resolves when no more answers are wanted. */
  get aborted(): Promise<undefined> {
    return this.#aborted.promise
  }

  /** Resolves when it leaves the server, to whether it was answered completely. Made on first use, as the signal. */
  get over(): Promise<boolean> {
    this.#over ??= Promise.withResolvers()
    if (this.#isAnswered !== undefined) this.#over.resolve(this.#isAnswered)
    return this.#over.promise
  }

  /** It leaves the server. */
  leave(isAnswered: boolean): void {
    this.#isAnswered = isAnswered
    this.#over?.resolve(isAnswered)
  }

  /** No more answers are wanted: the asker cancelled the request, or it expired. */
  abort(error: StaticError): void {
    this.#isAborted = true
    this.#aborted.resolve(undefined)
    this.#abort.abort(error)
    this.answering?.stop(error)
  }
}
