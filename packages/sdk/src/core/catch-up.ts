/** Who waits until everything is processed that the relay had when it was last reached. */
import type { StaticError } from '@static/protocol'

/** Of one channel. */
export class CatchUp {
  /** The last entry that the relay has told of in this session. */
  #last: number | undefined
  #waiting: PromiseWithResolvers<void>[] = []

  /** Fulfilled when the entry that the relay has last told of is processed; in a lost session, that of the next one. */
  async wait(index: number): Promise<void> {
    if (this.#last !== undefined && index >= this.#last) return
    const waiting = Promise.withResolvers<void>()
    this.#waiting.push(waiting)
    await waiting.promise
  }

  /** The relay has entries up to this one. */
  expect(last: number): void {
    this.#last = last
  }

  /** The session is over: nobody knows what the relay has. */
  forget(): void {
    this.#last = undefined
  }

  /** Everything up to here is processed. */
  reached(index: number): void {
    if (this.#last === undefined || index < this.#last) return
    for (const { resolve } of this.#take()) resolve()
  }

  /** Nothing more comes, because of this. */
  fail(error: StaticError): void {
    for (const { reject } of this.#take()) reject(error)
  }

  #take(): PromiseWithResolvers<void>[] {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting
  }
}
