/**
 * The messages of an agent on their way to those who follow a channel, in this process or by the socket. A message is
 * settled when its follower has printed it; of one who goes away before, the message goes to the next.
 */
import { StaticError } from '@static/protocol'
import type { Channel, Envelope, StaticChannelManager } from '@static/sdk'
import { type Message, messageOf } from './actions.ts'

/** A message that has come, held by its iterator until it is settled; or what ended the channel instead. */
interface QueuedMessage {
  readonly order: number
  readonly iterator: AsyncIterator<Envelope, undefined>
  readonly envelope: Envelope | undefined
  readonly error: unknown
  /** Whether a follower has had it. */
  given: boolean
}

/** A follower that waits for a message. */
type Waiter = (message: QueuedMessage) => void

/** Follows one channel. */
export interface Follower {
  /** The next message; the one before is settled. Rejects with what ended the channel. */
  next(): Promise<Message>
  /** Settles the last message: nothing more is wanted. */
  settle(): Promise<void>
  /** Gives back what is not settled. */
  abandon(): void
}

/** Hands an agent's messages to its followers. */
export class MessageQueue {
  readonly #manager: StaticChannelManager
  readonly #queues = new WeakMap<Channel, ChannelQueue>()

  constructor(manager: StaticChannelManager) {
    this.#manager = manager
  }

  /** @throws {StaticError} `not_found` when the agent is not in the channel */
  follow(name: string): Follower {
    const channel = this.#manager.client.channel(name)
    const queue = this.#queues.get(channel) ?? new ChannelQueue(channel)
    this.#queues.set(channel, queue)
    let held: QueuedMessage | undefined
    let waiter: Waiter | undefined
    let abandoned = false
    const settle = async (): Promise<void> => {
      const settled = held
      held = undefined
      await settled?.iterator.return?.()
    }
    return {
      next: async () => {
        await settle()
        // Abandoned meanwhile: a message that came now would go to no follower.
        if (abandoned) throw StaticError.of('closed')
        const taken = await new Promise<QueuedMessage>((resolve) => {
          waiter = (found) => {
            waiter = undefined
            held = found
            resolve(found)
          }
          queue.request(waiter)
        })
        if (!taken.envelope) throw taken.error
        const message = messageOf(name, taken.envelope)
        const redelivered = message.redelivered || taken.given
        taken.given = true
        return { ...message, redelivered }
      },
      settle,
      abandon: () => {
        abandoned = true
        if (waiter) queue.cancel(waiter)
        // Not ended: that would settle it.
        if (held) queue.put(held)
        held = undefined
      },
    }
  }
}

/** The messages of one channel: each goes to the waiter that has waited longest. */
class ChannelQueue {
  readonly #channel: Channel
  /** Arrived, with no follower yet, in order. */
  readonly #unclaimed: QueuedMessage[] = []
  readonly #waiters: Waiter[] = []
  /** Requested, and not yet arrived. */
  #requested = 0
  #count = 0

  constructor(channel: Channel) {
    this.#channel = channel
  }

  request(waiter: Waiter): void {
    const unclaimed = this.#unclaimed.shift()
    if (unclaimed) return waiter(unclaimed)
    this.#waiters.push(waiter)
    // What was asked for a waiter that has left is still on its way.
    while (this.#requested < this.#waiters.length) this.#fetch()
  }

  cancel(waiter: Waiter): void {
    const at = this.#waiters.indexOf(waiter)
    if (at >= 0) this.#waiters.splice(at, 1)
  }

  put(message: QueuedMessage): void {
    const waiter = this.#waiters.shift()
    if (waiter) return waiter(message)
    // The end of the channel need not be kept: whoever asks next hears of it anew.
    if (!message.envelope) return
    this.#unclaimed.push(message)
    this.#unclaimed.sort((one, other) => one.order - other.order)
  }

  #fetch(): void {
    const iterator = this.#channel.envelopes()
    const order = this.#count++
    this.#requested++
    const arrive = (envelope: Envelope | undefined, error?: unknown): void => {
      this.#requested--
      this.put({ order, iterator, envelope, error, given: false })
    }
    iterator.next().then(
      ({ value }) => arrive(value, StaticError.of('closed')),
      (error: unknown) => arrive(undefined, error),
    )
  }
}
