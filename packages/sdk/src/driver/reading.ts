/**
 * Payloads of one channel that the program reads ahead. Each one that is wanted has an iterator of its own, which holds
 * its payload until the program says that it is settled: what the program has and has not handed on is given again
 * after a crash.
 */
import { toHex } from '@static/protocol'
import type { Channel, Envelope } from '../channel.ts'
import { failureOf } from './failure.ts'
import type { Tell } from './messages.ts'

/** What is read of a channel. */
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

  /** So many more are wanted. They are told in order, for the iterators get them in the order in which they ask. */
  more(count: number, run: number): void {
    for (let left = count; left > 0; left--) this.#wait(run)
  }

  settle(tokens: readonly number[]): void {
    for (const token of tokens) {
      // What leaving an iterator gives is known beforehand: nothing, at once.
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
