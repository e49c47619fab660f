/**
 * Distributes the messages of an agent to the followers of a channel, in this process or through the socket. A message
 * is settled once its follower has printed it. If the follower goes away before that, the message goes to the next one.
 */
import { StaticError } from '@static/protocol'
import type { Channel, Envelope, StaticChannelManager } from '@static/sdk'
import { type Message, messageOf } from './actions.ts'

/** A message that has arrived, held until it is settled; or the error that ended the channel. */
interface QueuedMessage {
  readonly order: number
  readonly envelope: Envelope | undefined
  readonly error: unknown
  /** Whether it was given to a follower before. */
  given: boolean
}

/** Called with the message that a follower is waiting for. */
type Waiter = (message: QueuedMessage) => void

/** Reads the messages of one channel. */
export interface Follower {
  /** Whether the agent has the next message, or the end of the channel, so that `next` need not wait for the relay. */
  readonly hasNext: boolean
  /**
   * Settles the previous message and waits for the next. Rejects with the error that ended the channel. A message that
   * is fetched ahead counts as delivered only once `given` is called.
   */
  next(options?: { readonly ahead?: boolean }): Promise<Message>
  /** The message that was fetched ahead is delivered. */
  given(): void
  /** Settles the last message without asking for another one. */
  settle(): void | Promise<void>
  /** Returns an unsettled message to the queue. */
  abandon(): void
}

/** Distributes an agent's messages to its followers. */
export class MessageQueue {
  readonly #manager: StaticChannelManager
  readonly #queues = new WeakMap<Channel, ChannelQueue>()

  constructor(manager: StaticChannelManager) {
    this.#manager = manager
  }

  /** @throws {StaticError} `not_found` if the agent is not in the channel */
  follow(name: string): Follower {
    const channel = this.#manager.client.channel(name)
    const queue = this.#queues.get(channel) ?? new ChannelQueue(channel)
    this.#queues.set(channel, queue)
    let held: QueuedMessage | undefined
    let waiter: Waiter | undefined
    let abandoned = false
    const given = (): void => {
      held?.envelope?.markGiven()
      if (held) held.given = true
    }
    const settle = (): void => {
      const settled = held
      held = undefined
      settled?.envelope?.settle()
    }
    return {
      get hasNext() {
        return queue.hasNext
      },
      next: async ({ ahead = false } = {}) => {
        settle()
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
        const message = messageOf(channel, taken.envelope)
        const redelivered = message.redelivered || taken.given
        if (!ahead) given()
        return { ...message, redelivered }
      },
      given,
      settle,
      abandon: () => {
        abandoned = true
        if (waiter) queue.cancel(waiter)
        if (held) queue.put(held)
        held = undefined
      },
    }
  }
}

/** The messages of one channel; each goes to the longest-waiting follower. */
class ChannelQueue {
  readonly #channel: Channel
  /** Messages without a follower, in order of arrival. */
  readonly #unclaimed: QueuedMessage[] = []
  readonly #waiters: Waiter[] = []
  /** Number of messages requested that have not arrived. */
  #requested = 0
  #count = 0

  constructor(channel: Channel) {
    this.#channel = channel
  }

  get hasNext(): boolean {
    return this.#unclaimed.length > 0 || this.#channel.hasNext
  }

  request(waiter: Waiter): void {
    const unclaimed = this.#unclaimed.shift()
    if (unclaimed) return waiter(unclaimed)
    this.#waiters.push(waiter)
    // Requests made for a waiter that has left are still pending, so they count.
    while (this.#requested < this.#waiters.length) this.#fetch()
  }

  cancel(waiter: Waiter): void {
    const at = this.#waiters.indexOf(waiter)
    if (at >= 0) this.#waiters.splice(at, 1)
  }

  put(message: QueuedMessage): void {
    const waiter = this.#waiters.shift()
    if (waiter) return waiter(message)
    // The error that ended the channel need not be kept: the next request gets it again.
    if (!message.envelope) return
    this.#unclaimed.push(message)
    this.#unclaimed.sort((one, other) => one.order - other.order)
  }

  #fetch(): void {
    const order = this.#count++
    this.#requested++
    const arrive = (envelope: Envelope | undefined, error?: unknown): void => {
      this.#requested--
      this.put({ order, envelope, error, given: false })
    }
    // It counts as delivered once a follower gets it, not while it is unclaimed.
    this.#channel
      .readAhead()
      .next()
      .then(
        ({ value }) => arrive(value, StaticError.of('closed')),
        (error: unknown) => arrive(undefined, error),
      )
  }
}
