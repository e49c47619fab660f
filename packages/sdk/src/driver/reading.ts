/**
 * Messages of one channel that the program reads ahead or handles. Each is held until the program settles it: anything
 * that the program received but did not settle is delivered again.
 */
import { StaticError } from '@static/protocol'
import { Unfit } from '../channel/receiving/unfit.ts'
import type { Channel } from '../public/channel.ts'
import type { HandleOptions } from '../channel/receiving/handling.ts'
import type { Envelope } from '../public/envelope.ts'
import type { MessageFields, PlainError, Tell } from './pipe-protocol.ts'
import { plainFile } from './file-calls.ts'
import { plainError, plainMember } from './plain.ts'

/** Read-ahead and handling of one channel. */
export class Reading {
  readonly #channel: Channel
  readonly #on: number
  readonly #tell: Tell
  readonly #held = new Map<number, Envelope>()
  /** Iterators waiting for a payload, with the run of the `more` that asked for it. */
  readonly #waiting = new Map<AsyncIterator<Envelope, undefined>, number>()
  /** The iterators of payloads that were read ahead, by token. */
  readonly #ahead = new Map<number, AsyncIterator<Envelope, undefined>>()
  readonly #handled = new Map<number, PromiseWithResolvers<void>>()
  #tokens = 0

  constructor(channel: Channel, on: number, tell: Tell) {
    this.#channel = channel
    this.#on = on
    this.#tell = tell
  }

  /** Asks for more payloads. They are sent in order, because iterators get payloads in the order in which they ask. */
  more(count: number, run: number): void {
    for (let left = count; left > 0; left--) this.#wait(run)
  }

  /** The program has settled these messages. */
  settle(tokens: readonly number[]): void {
    for (const token of tokens) {
      this.#held.get(token)?.settle()
      this.#held.delete(token)
      this.#ahead.delete(token)
    }
  }

  /** The program passes these on to no reader, and wants nothing of what it requested before this run. */
  recall(tokens: readonly number[], before: number): void {
    for (const [iterator, run] of this.#waiting) {
      if (run >= before) continue
      this.#waiting.delete(iterator)
      void iterator.return?.()
    }
    for (const token of tokens) {
      void this.#ahead.get(token)?.return?.()
      this.#ahead.delete(token)
      this.#held.delete(token)
    }
  }

  /** The program has passed all messages up to this one on to its readers. */
  given(upTo: number): void {
    for (const [token, envelope] of this.#held) if (token <= upTo) envelope.markGiven()
  }

  /** Makes the program handle each message; `call` is the number of its call. */
  async handle(call: number, options: HandleOptions): Promise<void> {
    await this.#channel.handle(async (envelope) => {
      const token = this.#hold(envelope)
      const handled = Promise.withResolvers<void>()
      this.#handled.set(token, handled)
      this.#tell({ event: 'handle', call, ...this.#fieldsOf(envelope, token) }, envelope.payload)
      try {
        await handled.promise
      } finally {
        this.#handled.delete(token)
        this.#held.delete(token)
      }
    }, options)
  }

  /** The program has handled a message, or failed to. */
  handled(token: number, failure: string | undefined, isUnfit: boolean): void {
    if (failure === undefined) this.#handled.get(token)?.resolve()
    else
      this.#handled
        .get(token)
        ?.reject(isUnfit ? new Unfit(StaticError.of('schema_mismatch', failure)) : new Error(failure))
  }

  #wait(run: number): void {
    const on = this.#on
    const end = (error?: PlainError): void =>
      this.#tell({ event: 'ended', on, run, ...(error === undefined ? {} : { error }) })
    const iterator = this.#channel.readAhead()
    this.#waiting.set(iterator, run)
    iterator.next().then(
      (result) => {
        // Otherwise it was recalled.
        if (!this.#waiting.delete(iterator)) return
        if (result.done) end()
        else this.#give(result.value, iterator, run)
      },
      (error: unknown) => {
        if (this.#waiting.delete(iterator)) end(plainError(error))
      },
    )
  }

  #give(envelope: Envelope, iterator: AsyncIterator<Envelope, undefined>, run: number): void {
    const token = this.#hold(envelope)
    this.#ahead.set(token, iterator)
    this.#tell({ event: 'payload', run, ...this.#fieldsOf(envelope, token) }, envelope.payload)
  }

  #hold(envelope: Envelope): number {
    const token = ++this.#tokens
    this.#held.set(token, envelope)
    return token
  }

  #fieldsOf(envelope: Envelope, token: number): MessageFields {
    const { sender, messageId, index, epoch, time, redelivered, file } = envelope
    return {
      on: this.#on,
      token,
      sender: plainMember(sender),
      messageId,
      index,
      epoch,
      time: time.getTime(),
      redelivered,
      ...(file && { file: plainFile(file) }),
    }
  }
}
