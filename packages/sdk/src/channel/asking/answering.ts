/**
 * Sends the numbered answers to one request, at most a window of them beyond what the asker has read. An asker that
 * reads nothing holds back only its own answers.
 */
import type { StaticError } from '@static/protocol'
import type { Sender } from '../sending/sender.ts'
import { isWindowFull, sizeOfAnswer } from './answer-window.ts'
import { type AnswerError, encodeAnswer, encodeAnswerEnd } from './ask-frame.ts'

/** The number of answers sent before the relay has accepted the first. */
const MOST_IN_FLIGHT = 16

/** The answers to one request. */
export class Answering {
  readonly #requestId: Uint8Array
  readonly #sender: Pick<Sender, 'send'>
  /**
   * Called when the asker holds the answers back. Returns a function to call when it no longer does, which may wait.
   */
  readonly #held: () => () => Promise<void>
  #number = 0
  /** Sizes of the answers that the asker has not read. The first one has the number `#read`. */
  readonly #unread: number[] = []
  #unreadBytes = 0
  #read = 0
  readonly #inFlight = new Set<Promise<void>>()
  #failure: { readonly cause: unknown } | undefined
  #stopped: StaticError | undefined
  /** Set if it must not wait for the asker. */
  #hurried: StaticError | undefined
  #wake: (() => void) | undefined

  constructor(requestId: Uint8Array, sender: Pick<Sender, 'send'>, held: () => () => Promise<void>) {
    this.#requestId = requestId
    this.#sender = sender
    this.#held = held
  }

  /** The asker has read this many answers. */
  more(read: number): void {
    for (; this.#read < read && this.#unread.length > 0; this.#read++) this.#unreadBytes -= this.#unread.shift() ?? 0
    this.#wake?.()
  }

  /** Ends a wait for the asker: `send` throws the error from now on. */
  stop(error: StaticError): void {
    this.#stopped ??= error
    this.#wake?.()
  }

  /** Like `stop`, but only if `send` has to wait for the asker. */
  hurry(error: StaticError): void {
    this.#hurried ??= error
    this.#wake?.()
  }

  /** Sends an answer that is not the last. Waits while the asker has a full window of unread answers. */
  async send(payload: Uint8Array): Promise<void> {
    await this.#room(sizeOfAnswer(payload))
    const sent = this.#sender
      .send('answer', encodeAnswer(this.#requestId, this.#number++, payload))
      .then(() => {})
      .catch((cause: unknown) => void (this.#failure ??= { cause }))
      .finally(() => this.#inFlight.delete(sent))
    this.#inFlight.add(sent)
    while (this.#inFlight.size >= MOST_IN_FLIGHT) await Promise.race(this.#inFlight)
    this.#check()
  }

  /**
   * Ends the answer: with a last payload, an error or nothing. Resolves when the relay has accepted all of it. Only a
   * last payload waits for the asker, which accepts the other endings at any time.
   */
  async end(content: { readonly payload: Uint8Array } | { readonly error: AnswerError } | undefined): Promise<void> {
    if (content && 'payload' in content) await this.#room(sizeOfAnswer(content.payload))
    const body = encodeAnswerEnd({ requestId: this.#requestId, number: this.#number, content })
    await Promise.all([this.#sender.send('answer_end', body), ...this.#inFlight])
    this.#check()
  }

  async #room(size: number): Promise<void> {
    const isFull = (): boolean => isWindowFull(this.#unreadBytes, size)
    const goOn = isFull() ? this.#held() : undefined
    while (isFull() && !this.#stopped && !this.#hurried) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
    }
    await goOn?.()
    this.#check()
    if (isFull() && this.#hurried) throw this.#hurried
    this.#unread.push(size)
    this.#unreadBytes += size
  }

  #check(): void {
    if (this.#stopped) throw this.#stopped
    if (this.#failure) throw this.#failure.cause
  }
}
