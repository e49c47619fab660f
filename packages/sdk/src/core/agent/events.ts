/** What the application may want to know and need not ask for. */
import type { StaticError } from '@static/protocol'
import type { AgentId } from '../../ports.ts'

/** Something that has happened. */
export type AgentEvent =
  | { readonly type: 'connected'; readonly way: 'quic' | 'grpc' }
  /** The agent dials again by itself. */
  | { readonly type: 'disconnected'; readonly error: StaticError }
  /** This agent has replaced its keys in a channel. */
  | { readonly type: 'rekeyed'; readonly channel: string }
  /** Who is in a channel has changed. */
  | {
      readonly type: 'members_changed'
      readonly channel: string
      readonly by: AgentId
      readonly added: readonly AgentId[]
      readonly removed: readonly AgentId[]
    }
  /** An identity that was known by another key is in the channel now. */
  | {
      readonly type: 'identity_changed'
      readonly channel: string
      readonly identity: Uint8Array
      readonly known: AgentId
      readonly now: AgentId
    }
  /** The relay says something of a channel that its group contradicts. */
  | { readonly type: 'roster_lie'; readonly channel: string; readonly detail: string }
  /** Messages are gone before this agent got them. */
  | { readonly type: 'gap'; readonly channel: string; readonly first: number; readonly last: number }
  /** A message could not be opened and was left out. */
  | { readonly type: 'decryption_failure'; readonly channel: string; readonly sender: AgentId; readonly index: number }
  /**
   * So many messages of a sender in a row could not be opened that only its next 16 are tried, until one opens or the
   * group's keys change. Told once.
   */
  | { readonly type: 'sender_unreadable'; readonly channel: string; readonly sender: AgentId }
  /** A member writes messages of a version that this agent does not know; they are left out. Told once for each member. */
  | {
      readonly type: 'unknown_version'
      readonly channel: string
      readonly sender: AgentId
      readonly version: number
    }
  /** A commit broke the rules, and every member leaves it out; or (`unfollowable`) this one cannot follow it. */
  | {
      readonly type: 'commit_skipped'
      readonly channel: string
      readonly sender: AgentId
      /** The slot that it took, for `Channel.rejectCommit`. */
      readonly slot: number
      readonly reason: string
    }
  /** The members have undone a commit; its sender may not commit until the owner allows it. */
  | { readonly type: 'commit_rejected'; readonly channel: string; readonly sender: AgentId }
  /** A member was shown another history. Sending has stopped: compare `verify()`. */
  | { readonly type: 'fork_detected'; readonly channel: string; readonly member: AgentId; readonly detail: string }
  /** The channel cannot go on here: the error says what to do. */
  | { readonly type: 'channel_failed'; readonly channel: string; readonly error: StaticError }
  /**
   * `send` has waited for 5 s: the error says for what, such as a connection, quota, the relay's disk, its rate limit, or
   * a change of the group. It goes on waiting. Told once for each wait, which lasts until a message is taken.
   */
  | {
      readonly type: 'waiting'
      readonly channel: string
      readonly error: StaticError
      /** When the wait began, in milliseconds since 1970. */
      readonly since: number
    }
  /**
   * The relay's room for a channel is three quarters used, or all: these members, the furthest behind first, have not
   * fetched so many entries, and sending is slowed down. If it gets full, they lose the oldest, or `send` fails with
   * `queue_full`. Told at most once a minute for each channel.
   */
  | {
      readonly type: 'lagging'
      readonly channel: string
      readonly members: readonly { readonly agent: AgentId; readonly waiting: number }[]
    }
  /**
   * The relay puts off a change to a channel (a member to add or remove, new keys, a request to join) for longer than a
   * moment; it is tried again by itself, after `waitMs` at first. Told once for each commit, and each time that a request to join is put off.
   */
  | { readonly type: 'throttled'; readonly channel: string; readonly error: StaticError; readonly waitMs: number }
  /** The handler of `Channel.handle` has failed on a message; it is called again after `retryInMs`. */
  | {
      readonly type: 'handler_failed'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly attempts: number
      readonly reason: string
      readonly retryInMs: number
    }
  /**
   * The handler has failed on a message as often as `attempts` says, and it was put aside (`Channel.poison`). If
   * `isPutAside` is false, too many are put aside already: it is tried further, every 5 minutes.
   */
  | {
      readonly type: 'poison'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly attempts: number
      readonly reason: string
      readonly isPutAside: boolean
    }
  /** So much is unread that no more is taken: read, or the channel stands still here. */
  | { readonly type: 'inbox_full'; readonly channel: string }
  /** A Welcome came that cannot be used. */
  | { readonly type: 'welcome_refused'; readonly channel: string; readonly error: StaticError }

/** How many events wait for a reader who does not read. The oldest are dropped. */
const KEPT = 1024

interface Listener<Event> {
  readonly queue: Event[]
  /** Fulfilled by what comes next; all that wait share it. */
  woken: PromiseWithResolvers<void> | undefined
}

/** Hands events to everybody who listens. */
export class Events<Event> {
  readonly #listeners = new Set<Listener<Event>>()
  #closed = false

  emit(event: Event): void {
    for (const listener of this.#listeners) {
      listener.queue.push(event)
      if (listener.queue.length > KEPT) listener.queue.shift()
      wake(listener)
    }
  }

  close(): void {
    this.#closed = true
    for (const listener of this.#listeners) wake(listener)
  }

  /** What there is to tell `first`, then everything from now on (also what happens before the first `next`). */
  listen(first: readonly Event[] = []): AsyncIterableIterator<Event> {
    const listener: Listener<Event> = { queue: this.#closed ? [] : [...first], woken: undefined }
    this.#listeners.add(listener)
    const next = async (): Promise<IteratorResult<Event>> => {
      for (;;) {
        const event = listener.queue.shift()
        if (event !== undefined) return { done: false, value: event }
        if (this.#closed || !this.#listeners.has(listener)) return { done: true, value: undefined }
        listener.woken ??= Promise.withResolvers()
        await listener.woken.promise
      }
    }
    const iterator: AsyncIterableIterator<Event> = {
      next,
      return: () => {
        this.#listeners.delete(listener)
        wake(listener)
        return Promise.resolve({ done: true, value: undefined })
      },
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }
}

function wake(listener: Listener<unknown>): void {
  listener.woken?.resolve()
  listener.woken = undefined
}
