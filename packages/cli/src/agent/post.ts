/**
 * The messages of an agent on their way to those who follow a channel, in this process or by the socket. A message is
 * settled when its follower has printed it; of one who goes away before, the message goes to the next.
 */
import { StaticError } from '@static/protocol'
import type { Channel, Envelope, StaticChannelManager } from '@static/sdk'
import { type Message, messageOf } from './actions.ts'

/** One message, waited for or come. */
interface Place {
  readonly order: number
  readonly iterator: AsyncIterator<Envelope, undefined>
  readonly next: Promise<IteratorResult<Envelope, undefined>>
  /** Whether a follower has had it. */
  given: boolean
}

/** Follows one channel. */
export interface Follower {
  /** The next message; the one before is settled. Rejects with what ended the channel. */
  next(): Promise<Message>
  /** Settles the last message: nothing more is wanted. */
  settle(): Promise<void>
  /** Gives back what is not settled. */
  abandon(): void
}

/** Hands messages out. */
export class Post {
  readonly #manager: StaticChannelManager
  /** Places of followers that have gone. */
  readonly #left = new Map<string, Place[]>()
  #count = 0

  constructor(manager: StaticChannelManager) {
    this.#manager = manager
  }

  /** @throws {StaticError} `not_found` when the agent is not in the channel */
  follow(name: string): Follower {
    const channel = this.#manager.client.channel(name)
    let place: Place | undefined
    const settle = async (): Promise<void> => {
      const settled = place
      place = undefined
      await settled?.iterator.return?.()
    }
    return {
      next: async () => {
        await settle()
        const taken = this.#left.get(name)?.shift() ?? this.#placeIn(channel)
        place = taken
        const result = await taken.next
        if (result.done) throw StaticError.of('closed')
        const message = messageOf(name, result.value)
        const redelivered = message.redelivered || taken.given
        taken.given = true
        return { ...message, redelivered }
      },
      settle,
      abandon: () => {
        if (!place) return
        // Not ended: that would settle it, also if it comes at this very moment.
        const left = this.#left.get(name) ?? []
        this.#left.set(
          name,
          [...left, place].sort((one, other) => one.order - other.order),
        )
        place = undefined
      },
    }
  }

  #placeIn(channel: Channel): Place {
    const iterator = channel.envelopes()
    const next = iterator.next()
    // Whoever follows gets the error; nobody has to.
    next.catch(() => {})
    return { order: this.#count++, iterator, next, given: false }
  }
}
