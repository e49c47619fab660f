/** How far a member has answered a request of this agent, and how much of that was read. */
import { CONFIRMED_BYTES, isWindowFull } from './answer-window.ts'

/** One answering member. */
export class Answerer {
  /** The number of its answers that have arrived. */
  answers = 0
  /** Whether it has ended its answer. */
  ended = false
  /** Whether a confirmation could not be sent, and will be sent again. */
  isRetrying = false
  /** How many answers the application has read, and the bytes of those that the member does not know of. */
  #read = 0
  #unconfirmed = 0
  /** Sizes of the answers that the application has not read, the first of which has the number `#read`. */
  readonly #unread: number[] = []
  #unreadBytes = 0

  /** Restores what is on disk. What was read before may not have been confirmed. */
  restore(answers: number, ended: boolean): void {
    this.answers = answers
    this.ended = ended
    this.#read = answers
    this.#unconfirmed = CONFIRMED_BYTES
  }

  /** Whether the member may not send an answer of this size yet. */
  isFull(size: number): boolean {
    return isWindowFull(this.#unreadBytes, size)
  }

  /** An answer has arrived, or is on disk. */
  push(number: number, size: number): void {
    this.answers = Math.max(this.answers, number + 1)
    this.#read = Math.min(this.#read, number)
    this.#unread.push(size)
    this.#unreadBytes += size
  }

  /** The member was restarted and gives an answer again: from now on it counts its size as it is now. */
  repeat(number: number, size: number): void {
    const at = number - this.#read
    const unread = this.#unread[at]
    if (unread === undefined) this.#unconfirmed += size
    else {
      this.#unread[at] = size
      this.#unreadBytes += size - unread
    }
  }

  /** The application has read the next answer. */
  read(): void {
    const size = this.#unread.shift() ?? 0
    this.#read++
    this.#unreadBytes -= size
    this.#unconfirmed += size
  }

  /** Whether the member has to know how much was read. */
  get isDue(): boolean {
    return this.#unconfirmed >= CONFIRMED_BYTES && this.#read > 0 && !this.ended && !this.isRetrying
  }

  /** Returns how many answers were read, to be confirmed now. */
  confirm(): number {
    this.#unconfirmed = 0
    return this.#read
  }

  /** The confirmation could not be sent. */
  unconfirm(): void {
    this.#unconfirmed = CONFIRMED_BYTES
  }
}
