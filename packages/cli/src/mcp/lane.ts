/**
 * The messages and notices of one channel on their way to a model, in their order. At most one message is fetched
 * ahead, so that it is known that one waits.
 */
import { StaticError } from '@static/protocol'
import type { Message } from '../agent/actions.ts'
import type { Follower } from '../agent/message-queue.ts'
import type { Notice } from './notices.ts'

/** A message, held until it is settled, or a notice. */
export type Item =
  | { readonly channel: string; readonly message: Message; readonly follower: Follower }
  | { readonly channel: string; readonly notice: Notice }

/** Members can cause notices. The first ones are alarming enough. */
const MOST_NOTICES = 20

/** One channel. */
export class Lane {
  readonly #channel: string
  readonly #follow: () => Follower
  readonly #arrived: () => void
  /** Fetched or put back, in order. */
  readonly #ready: Item[] = []
  readonly #notices: (Item & { readonly notice: Notice })[] = []
  #isFetching = false
  /** The error that was last reported. */
  #failure: string | undefined

  constructor(channel: string, follow: () => Follower, arrived: () => void) {
    this.#channel = channel
    this.#follow = follow
    this.#arrived = arrived
  }

  get isEmpty(): boolean {
    return this.#ready.length === 0 && this.#notices.length === 0
  }

  /**
   * Fetches a message unless one is ready.
   *
   * @throws {StaticError} `not_found` or `removed` if the agent is not in the channel
   */
  fetch(): void {
    if (this.#isFetching || this.#ready.length > 0) return
    const follower = this.#follow()
    this.#isFetching = true
    follower.next({ ahead: true }).then(
      (message) => this.#take({ channel: this.#channel, message, follower }),
      (error: unknown) => this.#fail(StaticError.from(error)),
    )
  }

  /** Adds a notice; false if there are too many. */
  addNotice(notice: Notice): boolean {
    if (this.#notices.length >= MOST_NOTICES) return false
    this.#notices.push({ channel: this.#channel, notice })
    this.#arrived()
    return true
  }

  /** The first item; undefined if nothing has arrived. */
  get first(): Item | undefined {
    const [ready] = this.#ready
    const [noticed] = this.#notices
    if (!ready || !noticed) return ready ?? noticed
    // What was put back was there before. A gap comes after the messages before it, any other notice at once.
    if ('notice' in ready || (noticed.notice.notice === 'gap' && ready.message.index < noticed.notice.first))
      return ready
    return noticed
  }

  /** Removes the first item. */
  shift(): void {
    if (this.first === this.#notices[0]) this.#notices.shift()
    else this.#ready.shift()
  }

  /** Takes back items that the model may not have seen, in order. */
  putBack(items: readonly Item[], isSeen: boolean): void {
    const again = items.map((item) =>
      'message' in item && isSeen ? { ...item, message: { ...item.message, redelivered: true } } : item,
    )
    this.#ready.unshift(...again)
    if (again.length > 0) this.#arrived()
  }

  #take(item: Item): void {
    this.#isFetching = false
    this.#failure = undefined
    this.#ready.push(item)
    this.#arrived()
  }

  #fail({ code, message }: StaticError): void {
    this.#isFetching = false
    // Each call tries again, in case the agent has joined again, and would get the same error.
    if (code === 'closed' || code === this.#failure) return
    this.#failure = code
    this.addNotice({ notice: 'failed', code, message })
  }
}
