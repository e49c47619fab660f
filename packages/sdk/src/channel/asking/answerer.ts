/** How far a member has answered a request, and how much of that was read. */
import { CONFIRMED_BYTES, isWindowFull, WINDOW_BYTES } from './answer-window.ts'

/** An answer that the application has not read. */
interface Unread {
  /** Its size in bytes. */
  readonly held: number
  /** Its size in the window, at most the size the member counts. */
  counted: number
}

export class Answerer {
  /** The number of its answers that have arrived. */
  answers = 0
  /** Whether it has ended its answer. */
  ended = false
  /** Whether a confirmation could not be sent, and will be sent again. */
  isRetrying = false
  /** How many answers the application has read, and the bytes of those not yet confirmed to the member. */
  #read = 0
  #unconfirmed = 0
  /** The answers that the application has not read. The first one has the number `#read`. */
  #unread: Unread[] = []
  #heldBytes = 0
  #countedBytes = 0
  /** Answers with lower numbers arrived before a restart. */
  #restored = 0

  /** Restores the state on disk. Answers read earlier may not have been confirmed. */
  restore(answers: number, ended: boolean): void {
    this.answers = answers
    this.ended = ended
    this.#read = answers
    this.#unconfirmed = CONFIRMED_BYTES
    this.#restored = answers
  }

  /** Whether the member may not send an answer of this size yet. */
  isFull(size: number): boolean {
    return isWindowFull(this.#countedBytes, size)
  }

  /**
   * An answer has arrived or was loaded from disk. The size that the member last counted for a loaded one is unknown.
   */
  push(number: number, size: number): void {
    const counted = number < this.#restored ? 0 : size
    this.answers = Math.max(this.answers, number + 1)
    this.#read = Math.min(this.#read, number)
    this.#unread.push({ held: size, counted })
    this.#heldBytes += size
    this.#countedBytes += counted
  }

  /**
   * Whether a shorter repetition must replace the unread answer and all answers after it, which the member sends again.
   * Otherwise the held answers could outgrow what the window counts.
   */
  isReplacing(number: number, size: number): boolean {
    const unread = this.#unread[number - this.#read]
    return unread !== undefined && size < unread.counted && this.#heldBytes > WINDOW_BYTES
  }

  /** Forgets the unread answers from this number on. */
  retract(number: number): void {
    for (const { held, counted } of this.#unread.splice(number - this.#read)) {
      this.#heldBytes -= held
      this.#countedBytes -= counted
    }
    this.answers = number
  }

  /** The restarted member repeats an answer. From now on it counts the new size. */
  repeat(number: number, size: number): void {
    const unread = this.#unread[number - this.#read]
    if (unread === undefined) this.#unconfirmed += size
    else if (number >= this.#restored) {
      this.#countedBytes += size - unread.counted
      unread.counted = size
    }
  }

  /** The application has read the next answer. */
  read(): void {
    const { held, counted } = this.#unread.shift() ?? { held: 0, counted: 0 }
    this.#read++
    this.#heldBytes -= held
    this.#countedBytes -= counted
    // For answers that arrived before a restart, the member may count more than is known here.
    this.#unconfirmed += this.#read === this.#restored ? CONFIRMED_BYTES : Math.max(held, counted)
  }

  /** Whether to confirm to the member how much was read. */
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
