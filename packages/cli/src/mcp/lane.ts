/**
 * The messages and notices of one channel on their way to a model, in order. At most one message is fetched ahead, to
 * learn whether one is waiting.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { StaticError } from '@static/protocol'
import type { Message } from '../agent/actions.ts'
import type { Follower } from '../agent/message-queue.ts'
import type { Notice } from './notices.ts'

/** A message or request, held until it is settled, or a notice. */
export type Item =
  | {
      readonly channel: string
      readonly message: ArrivedMessage
      readonly follower: Pick<Follower, 'given' | 'settle'>
    }
  | { readonly channel: string; readonly notice: Notice }

/** A message; with the name of the request and the end of its time if it is one. */
export interface ArrivedMessage extends Message {
  readonly request?: string
  readonly until?: string
}

/** Members can cause gaps and changed keys. The first few are alarming enough. */
const MOST_NOTICES = 20

/** A requested message. */
interface Fetching {
  /** Resolves when it is in the lane. */
  readonly done: Promise<void>
  /** Whether the agent has it. */
  readonly isArriving: () => boolean
}

/** One channel. */
export class Lane {
  readonly channel: string
  readonly #follow: () => Follower
  readonly #arrived: () => void
  /** In the order in which they are delivered. */
  readonly #items: Item[] = []
  #fetching: Fetching | undefined
  /** The end of the channel that was last reported. */
  #failure: (Notice & { readonly notice: 'failed' }) | undefined

  constructor(channel: string, follow: () => Follower, arrived: () => void) {
    this.channel = channel
    this.#follow = follow
    this.#arrived = arrived
  }

  get isEmpty(): boolean {
    return this.#items.length === 0
  }

  /**
   * Fetches a message unless one is ready.
   *
   * @throws {StaticError} `not_found` or `removed` if the agent is not in the channel
   */
  fetch(): void {
    if (this.#fetching || this.#items.some((item) => 'message' in item && item.message.request === undefined)) return
    const follower = this.#follow()
    const { hasNext } = follower
    const done = follower.next({ ahead: true }).then(
      (message) => this.#take({ channel: this.channel, message, follower }),
      (error: unknown) => this.#fail(StaticError.from(error)),
    )
    this.#fetching = { done, isArriving: () => hasNext || follower.hasNext }
  }

  /** Resolves when a message that the agent already has is in its place. It may have to wait for the disk. */
  async arrived(): Promise<void> {
    // Messages before the notice may have been delivered in this turn.
    if (this.first && 'notice' in this.first) await turn()
    if (this.#fetching?.isArriving()) await this.#fetching.done
  }

  /** Adds a notice. Returns it, or the earlier one with the same content; undefined if there are too many. */
  addNotice(notice: Notice): Notice | undefined {
    // Each call retries, in case the agent has joined again, and would otherwise get the same error.
    if (notice.notice === 'failed' && notice.code === this.#failure?.code) return this.#failure
    if (!this.#hasRoomFor(notice)) return undefined
    if (notice.notice === 'failed') this.#failure = notice
    this.#items.push({ channel: this.channel, notice })
    this.#sort()
    return notice
  }

  /** Adds a request. Returns a function that removes it if it is still here. */
  add(item: Item): () => void {
    this.#items.push(item)
    this.#sort()
    return () => {
      const at = this.#items.indexOf(item)
      if (at >= 0) this.#items.splice(at, 1)
    }
  }

  /** The first item; undefined if nothing has arrived. */
  get first(): Item | undefined {
    return this.#items[0]
  }

  /** Removes the first item. */
  shift(): void {
    this.#items.shift()
  }

  /** Returns items that the model may not have seen. */
  putBack(items: readonly Item[], isSeen: boolean): void {
    const again = items.map((item) =>
      'message' in item && isSeen ? { ...item, message: { ...item.message, redelivered: true } } : item,
    )
    this.#items.unshift(...again)
    if (again.length > 0) this.#sort()
  }

  #take(item: Item): void {
    this.#fetching = undefined
    const isOver = this.#items.some((other) => 'notice' in other && other.notice === this.#failure)
    // The agent has joined again.
    if (!isOver) this.#failure = undefined
    this.#items.push(item)
    this.#sort()
  }

  #fail({ code, message }: StaticError): void {
    this.#fetching = undefined
    if (code !== 'closed') this.addNotice({ notice: 'failed', code, message })
  }

  /** A fork and the end of a channel must be reported, however many others are waiting; one of each is enough. */
  #hasRoomFor({ notice }: Notice): boolean {
    const waiting = this.#items.flatMap((item) => ('notice' in item ? [item.notice.notice] : []))
    if (notice === 'fork') return !waiting.includes('fork')
    return (
      notice === 'failed' || waiting.filter((kind) => kind === 'gap' || kind === 'key_changed').length < MOST_NOTICES
    )
  }

  /** Items with the same position keep their order. */
  #sort(): void {
    this.#items.sort((one, other) => compare(placeOf(one), placeOf(other)) || compare(idOf(one), idOf(other)))
    this.#arrived()
  }
}

/** A gap comes after the messages before it, the end after everything, any other notice at once. */
function placeOf(item: Item): number {
  if ('message' in item) return item.message.index
  const { notice } = item
  if (notice.notice === 'gap') return notice.first
  return notice.notice === 'failed' ? Infinity : -Infinity
}

/** The payloads of a pack share an index; their ids are in their order. */
function idOf(item: Item): string {
  return 'message' in item ? item.message.message_id : ''
}

/** Not a subtraction: the difference of two infinite positions is not a number. */
function compare<Key extends number | string>(one: Key, other: Key): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}
