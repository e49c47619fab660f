/**
 * The messages of an agent on their way to those who follow a channel, in this process or by the socket. A message is
 * settled when its follower has printed it; of one who goes away before, the message goes to the next.
 */
import { StaticError } from '@static/protocol'
import type { Channel, Envelope, StaticChannelManager } from '@static/sdk'
import { type Message, messageOf } from './actions.ts'

/** A message that has come, held by its iterator until it is settled; or what ended the channel instead. */
interface Place {
  readonly order: number
  readonly iterator: AsyncIterator<Envelope, undefined>
  readonly envelope: Envelope | undefined
  readonly error: unknown
  /** Whether a follower has had it. */
  given: boolean
}

/** Somebody who waits for a message. */
type Wish = (place: Place) => void

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
  readonly #lines = new WeakMap<Channel, Line>()

  constructor(manager: StaticChannelManager) {
    this.#manager = manager
  }

  /** @throws {StaticError} `not_found` when the agent is not in the channel */
  follow(name: string): Follower {
    const channel = this.#manager.client.channel(name)
    const line = this.#lines.get(channel) ?? new Line(channel)
    this.#lines.set(channel, line)
    let place: Place | undefined
    let wish: Wish | undefined
    let gone = false
    const settle = async (): Promise<void> => {
      const settled = place
      place = undefined
      await settled?.iterator.return?.()
    }
    return {
      next: async () => {
        await settle()
        // Gone meanwhile: what came now would be nobody's.
        if (gone) throw StaticError.of('closed')
        const taken = await new Promise<Place>((resolve) => {
          wish = (found) => {
            wish = undefined
            place = found
            resolve(found)
          }
          line.ask(wish)
        })
        if (!taken.envelope) throw taken.error
        const message = messageOf(name, taken.envelope)
        const redelivered = message.redelivered || taken.given
        taken.given = true
        return { ...message, redelivered }
      },
      settle,
      abandon: () => {
        gone = true
        if (wish) line.forget(wish)
        // Not ended: that would settle it.
        if (place) line.put(place)
        place = undefined
      },
    }
  }
}

/** The messages of one channel: each goes to whoever waits the longest when it comes. */
class Line {
  readonly #channel: Channel
  /** Come, and nobody's, in order. */
  readonly #left: Place[] = []
  readonly #wishes: Wish[] = []
  /** Asked for, and not come. */
  #asked = 0
  #count = 0

  constructor(channel: Channel) {
    this.#channel = channel
  }

  ask(wish: Wish): void {
    const left = this.#left.shift()
    if (left) return wish(left)
    this.#wishes.push(wish)
    // What was asked for somebody who has gone is on its way still.
    while (this.#asked < this.#wishes.length) this.#begin()
  }

  forget(wish: Wish): void {
    const at = this.#wishes.indexOf(wish)
    if (at >= 0) this.#wishes.splice(at, 1)
  }

  put(place: Place): void {
    const wish = this.#wishes.shift()
    if (wish) return wish(place)
    // The end of the channel need not be kept: whoever asks next hears of it anew.
    if (!place.envelope) return
    this.#left.push(place)
    this.#left.sort((one, other) => one.order - other.order)
  }

  #begin(): void {
    const iterator = this.#channel.envelopes()
    const order = this.#count++
    this.#asked++
    const come = (envelope: Envelope | undefined, error?: unknown): void => {
      this.#asked--
      this.put({ order, iterator, envelope, error, given: false })
    }
    iterator.next().then(
      ({ value }) => come(value, StaticError.of('closed')),
      (error: unknown) => come(undefined, error),
    )
  }
}
