/** The public view of a request and its answers. */
import type { StaticError } from '@static/protocol'
import type { MemberProof } from '../channel/proving/member-proof.ts'
import type { OpenAsk } from '../channel/asking/open-ask.ts'
import { Answer } from './envelope.ts'
import type { ErrorEdge } from './error-edge.ts'
import type { AgentId } from '../ports/index.ts'

/**
 * A request, and its answers as they arrive. Ends when the member asked has ended its answer. A request to all ends
 * when all have answered, or at its deadline. Asking for the next answer settles the current one. Leaving the loop
 * early cancels the request.
 */
export class Ask implements AsyncIterableIterator<Answer, undefined, undefined> {
  readonly #ask: OpenAsk
  readonly #edge: ErrorEdge
  readonly #proofOf: (agent: AgentId) => MemberProof | undefined

  /** @internal Get it from `Channel.ask` or `Channel.asked`. */
  constructor(ask: OpenAsk, edge: ErrorEdge, proofOf: (agent: AgentId) => MemberProof | undefined) {
    this.#ask = ask
    this.#edge = edge
    this.#proofOf = proofOf
  }

  /** The request's message id, 32 hexadecimal digits. */
  get id(): string {
    return this.#ask.id
  }

  /** The member asked; undefined for all. */
  get to(): AgentId | undefined {
    return this.#ask.to
  }

  /** When the request times out. */
  get deadline(): Date {
    return new Date(this.#ask.deadline)
  }

  /**
   * The next answer.
   *
   * @throws {StaticError} `ask_timeout` if the member asked has not ended its answer in time, `not_found` if it left,
   *   `queue_full` if too many requests wait for it, the error that kept the request from being sent (see `send`), or the error that ended the channel
   */
  async next(): Promise<IteratorResult<Answer, undefined>> {
    const entry = await this.#edge.wait(() => this.#ask.next())
    return entry
      ? { done: false, value: new Answer(entry, this.#proofOf(entry.record.sender)) }
      : { done: true, value: undefined }
  }

  /** Cancels the request. */
  return(): Promise<IteratorResult<Answer, undefined>> {
    this.cancel()
    return Promise.resolve({ done: true, value: undefined })
  }

  /** Ends the request and forgets its answers. The members asked are notified unless they are done. */
  cancel(): void {
    this.#ask.cancel()
  }

  /** @internal The answers that are not settled, oldest first. */
  get unread(): readonly Answer[] {
    return this.#ask.unsettled.map((entry) => new Answer(entry, this.#proofOf(entry.record.sender)))
  }

  /** @internal Whether nothing more will arrive, and the error that ended it. */
  get end(): { readonly error: StaticError | undefined } | undefined {
    return this.#ask.isFinished ? { error: this.#ask.failure } : undefined
  }

  /** @internal The members that were asked and have not ended their answers. */
  get missing(): readonly AgentId[] {
    return this.#ask.missing
  }

  /** @internal Resolves when an answer is unread, when nothing more will arrive, or when the signal is aborted. */
  async arrival(signal: AbortSignal): Promise<void> {
    await this.#ask.arrival(signal)
  }

  /** @internal Settles the oldest answers, without reading others. */
  settle(count: number): void {
    this.#ask.settle(count)
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
