/**
 * Payloads of one channel that the program reads ahead. Each payload has its own iterator, which holds it until the
 * program settles it: anything that the program received but did not settle is delivered again after a crash.
 */
import { toHex } from '@static/protocol'
import type { Channel, Envelope } from '../channel.ts'
import { failureOf } from './failure.ts'
import type { Tell } from './messages.ts'

/** Read-ahead of one channel. */
export class Reading {
  readonly #channel: Channel
  readonly #on: number
  readonly #tell: Tell
  readonly #held = new Map<number, AsyncIterator<Envelope, undefined>>()
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

  settle(tokens: readonly number[]): void {
    for (const token of tokens) {
      // `return` of such an iterator resolves at once and yields nothing.
      void this.#held.get(token)?.return?.()
      this.#held.delete(token)
    }
  }

  #wait(run: number): void {
    const on = this.#on
    const iterator = this.#channel.envelopes()
    iterator.next().then(
      (result) => {
        if (result.done) this.#tell({ event: 'ended', on, run })
        else this.#give(iterator, result.value, run)
      },
      (error: unknown) => this.#tell({ event: 'ended', on, run, error: failureOf(error) }),
    )
  }

  #give(iterator: AsyncIterator<Envelope, undefined>, envelope: Envelope, run: number): void {
    const token = ++this.#tokens
    this.#held.set(token, iterator)
    const { payload, sender, messageId, index, epoch, time, redelivered } = envelope
    this.#tell(
      {
        event: 'payload',
        on: this.#on,
        run,
        token,
        sender: { ...sender, identity: toHex(sender.identity) },
        messageId,
        index,
        epoch,
        time: time.getTime(),
        redelivered,
      },
      payload,
    )
  }
}
