/** Events: notifications for the application. It can ignore them. */
import type { ReceiptMode, StaticError } from '@static/protocol'
import type { MemberProof } from '../channel/proving/member-proof.ts'
import type { AgentId } from '../ports/index.ts'

/** An event from the agent or one of its channels. Listen with `client.events()`. */
export type AgentEvent =
  /** A session with the relay is open. `way` is its transport. */
  | { readonly type: 'connected'; readonly way: 'quic' | 'grpc' }
  /** The session is lost. The agent reconnects automatically. */
  | { readonly type: 'disconnected'; readonly error: StaticError }
  /** This agent has replaced its keys in a channel. */
  | { readonly type: 'rekeyed'; readonly channel: string }
  /** A commit by agent `by` added or removed members of a channel. */
  | {
      readonly type: 'members_changed'
      readonly channel: string
      readonly by: AgentId
      readonly added: readonly AgentId[]
      readonly removed: readonly AgentId[]
    }
  /**
   * Member `by` added an agent that asked with an invite that members may use (`admit: 'members'`). If `beyond` is
   * true, the invite had no uses left or was revoked, and the owner's agent removes the added agent.
   */
  | {
      readonly type: 'admitted'
      readonly channel: string
      readonly member: AgentId
      readonly by: AgentId
      /** The id of the invite. */
      readonly invite: string
      readonly beyond: boolean
    }
  /**
   * Agent `by` has changed who owns a channel, or who may take it over. If `standby` is this agent and `offered`, the
   * owner hands the channel over to it: `Channel.takeOver`.
   */
  | {
      readonly type: 'ownership_changed'
      readonly channel: string
      readonly by: AgentId
      readonly owner: AgentId
      readonly standby: AgentId | undefined
      readonly offered: boolean
    }
  /**
   * The owner has sent something since this agent joined, which confirms that this is the owner's channel
   * (`Channel.confirmed`).
   */
  | { readonly type: 'confirmed'; readonly channel: string }
  /**
   * A member of the channel uses an identity that this agent knows with a different key: `known` is the pinned agent
   * id, `now` the new one. Compare fingerprints before you trust it.
   */
  | {
      readonly type: 'identity_changed'
      readonly channel: string
      readonly identity: Uint8Array
      readonly known: AgentId
      readonly now: AgentId
    }
  /** The relay claims something about a channel that contradicts its group. The claim is ignored. */
  | { readonly type: 'roster_lie'; readonly channel: string; readonly detail: string }
  /** The relay deleted entries `first` to `last` before this agent fetched them. */
  | { readonly type: 'gap'; readonly channel: string; readonly first: number; readonly last: number }
  /** A message could not be decrypted and was skipped. */
  | { readonly type: 'decryption_failure'; readonly channel: string; readonly sender: AgentId; readonly index: number }
  /**
   * Eight messages in a row from one sender could not be decrypted. Until one can be, or the group's keys change, a
   * message from this sender is tried only if its key is at most 16 steps ahead. Emitted once.
   */
  | { readonly type: 'sender_unreadable'; readonly channel: string; readonly sender: AgentId }
  /**
   * A member sends messages in a version that this agent does not support. They are skipped. Emitted once per member.
   */
  | {
      readonly type: 'unknown_version'
      readonly channel: string
      readonly sender: AgentId
      readonly version: number
    }
  /**
   * A commit broke the rules, so every member skips it. With reason `unfollowable`, only this agent cannot follow it.
   */
  | {
      readonly type: 'commit_skipped'
      readonly channel: string
      readonly sender: AgentId
      /** The slot of the commit, for `Channel.rejectCommit`. */
      readonly slot: number
      readonly reason: string
    }
  /**
   * For the owner: members still send in the epoch before a commit that this agent has followed. Either its committer
   * made it unreadable for them, or they only claim so; no one can prove which. They must leave and be added again. If
   * you blame the committer, remove it (`Channel.removeMember`). Emitted for the first such member, and each time their
   * number has doubled.
   */
  | {
      readonly type: 'commit_disputed'
      readonly channel: string
      /** The committer, and its identity. */
      readonly sender: AgentId
      readonly identity: Uint8Array
      /** The slot of the commit, as in the `commit_skipped` events of these members. */
      readonly slot: number
      readonly members: readonly AgentId[]
    }
  /** The members rejected a commit. Its sender cannot commit until the owner allows it again. */
  | { readonly type: 'commit_rejected'; readonly channel: string; readonly sender: AgentId }
  /**
   * A member reports that it has seen a different history. Sending has stopped. Compare your result of `verify()` with
   * the member's: if they are equal, its report is wrong; if they differ, the relay has shown different histories.
   */
  | {
      readonly type: 'fork_detected'
      readonly channel: string
      /** The member, and its identity. */
      readonly member: AgentId
      readonly identity: Uint8Array
      readonly detail: string
    }
  /** The channel cannot continue on this agent. The error says what to do. */
  | { readonly type: 'channel_failed'; readonly channel: string; readonly error: StaticError }
  /**
   * A call of `send` has been pending for 5 s. The error says what it is waiting for, such as a connection, quota, the
   * relay's disk, its rate limit, or a group change. It keeps waiting. Emitted once per wait, which lasts until the
   * relay accepts a message.
   */
  | {
      readonly type: 'waiting'
      readonly channel: string
      readonly error: StaticError
      /** When the wait began, in milliseconds since the Unix epoch. */
      readonly since: number
    }
  /**
   * The relay's storage for a channel is at least three quarters full, so sending is slowed down. `members` are the
   * members furthest behind, worst first; `waiting` is the number of entries each has not fetched. When the storage is
   * full, they lose their oldest entries, or `send` fails with `queue_full`. Emitted at most once a minute per channel.
   */
  | {
      readonly type: 'lagging'
      readonly channel: string
      readonly members: readonly { readonly agent: AgentId; readonly waiting: number }[]
    }
  /**
   * The relay defers a change to a channel (adding or removing a member, new keys, a join) for more than a moment, or
   * has refused so many commits that this agent waits before the next one. It is retried automatically, first after
   * `waitMs`. Emitted once per commit, and each time a join is deferred.
   */
  | { readonly type: 'throttled'; readonly channel: string; readonly error: StaticError; readonly waitMs: number }
  /** The handler of `Channel.handle` failed on a message. It is called again after `retryInMs`. */
  | {
      readonly type: 'handler_failed'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly messageId: string
      readonly attempts: number
      readonly reason: string
      readonly retryInMs: number
    }
  /**
   * The handler failed on a message for the last allowed attempt, so the message was put aside (see `Channel.poison`).
   * If `isPutAside` is false, the limit of messages put aside is reached; the message is retried every 5 minutes.
   */
  | {
      readonly type: 'poison'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly messageId: string
      readonly attempts: number
      readonly reason: string
      readonly isPutAside: boolean
    }
  /**
   * A member's receipt was verified: it has processed the log up to entry `delivered` and, if its mode is `settled`,
   * its application has settled everything up to `settled`. Emitted in channels whose receipts the application has
   * requested (`Channel.receipts`, `Channel.reached`).
   */
  | {
      readonly type: 'receipt'
      readonly channel: string
      readonly member: AgentId
      readonly mode: ReceiptMode
      readonly delivered: number
      readonly settled: number
    }
  /** The handler of `Channel.serve` failed on a request. The asker gets an error as the answer. */
  | {
      readonly type: 'request_failed'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly reason: string
    }
  /**
   * A request was not accepted: it is malformed, or its sender (or all members together) has too many requests waiting
   * for this agent.
   */
  | {
      readonly type: 'request_ignored'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly reason: 'malformed' | 'too_many'
    }
  /**
   * An answer to a request of this agent was ignored. `not_asked`: another member was asked. `ended`: its sender had
   * already ended its answer. `not_open`: the request was already answered, cancelled or timed out. `repeated`: its
   * sender restarted with its first answer, as after a crash. `too_many`: its sender does not wait until its answers
   * are read.
   */
  | {
      readonly type: 'answer_ignored'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      /** The id of the request that the answer names. */
      readonly request: string
      readonly reason: 'malformed' | 'not_open' | 'not_asked' | 'ended' | 'repeated' | 'out_of_order' | 'too_many'
    }
  /** A member has shown who runs it, and this agent has checked it. Not emitted again when the same is renewed. */
  | { readonly type: 'proof_checked'; readonly channel: string; readonly member: AgentId; readonly proof: MemberProof }
  /**
   * A member's proof is not `checked` any longer. The member stays. If `member` is this agent, it could not show its own
   * proof, and tries again after 10 minutes.
   */
  | { readonly type: 'proof_lapsed'; readonly channel: string; readonly member: AgentId; readonly proof: MemberProof }
  /**
   * A member that another member, or this agent, has added did not show a proof that this agent demands (`require`)
   * within 10 minutes, so this agent removes it.
   */
  | {
      readonly type: 'member_unproven'
      readonly channel: string
      readonly member: AgentId
      /** The proof that it has shown, if any. */
      readonly proof: MemberProof | undefined
    }
  /**
   * The list of trusted issuers, or what is known of their keys, cannot be read or written: until that has ended, new
   * proofs are not checked, and checked ones lapse. Tried again every minute; emitted once. Without a listener for events,
   * a warning (`logger`) says so.
   */
  | { readonly type: 'trust_failed'; readonly error: StaticError }
  /**
   * The statement of a domain about this agent ends within a week (a short one: within half of its life), or has ended,
   * and cannot be renewed here: the key of the domain is on another machine, or the statement is revoked. Have it signed
   * again (`static domain sign`). Emitted once for each statement. Without a listener for events, a warning (`logger`)
   * says so.
   */
  | { readonly type: 'proof_ending'; readonly domain: string; readonly until: Date }
  /** This agent has not admitted an agent, which shows no proof that it accepts. The joiner hears only `proof_required`. */
  | {
      readonly type: 'join_refused'
      readonly channel: string
      readonly agent: AgentId
      readonly invite: string
      readonly reason: string
    }
  /** A member asks this agent to approve an action (`Channel.approvals`). */
  | {
      readonly type: 'approval_requested'
      readonly channel: string
      readonly asker: AgentId
      /** The id of the approval. */
      readonly approval: string
    }
  /** A member has decided on an approval that this agent has asked for, or may decide on as well. */
  | {
      readonly type: 'approval_decided'
      readonly channel: string
      readonly member: AgentId
      readonly approval: string
      readonly choice: 'approve' | 'deny'
    }
  /** An approval that this agent has asked for has its outcome. */
  | {
      readonly type: 'approval_over'
      readonly channel: string
      readonly approval: string
      readonly decision: 'approved' | 'denied' | 'expired'
    }
  /**
   * A request for an approval of this agent, or a decision, was ignored. `not_asker`: its sender is not the asker that
   * it names. `elsewhere`: it is for another channel. `not_asked`: its sender may not decide. `repeated`: it is here, or
   * its sender has decided. `late`: after the deadline, or with one that is too far away. `invalid`: the signature is
   * not that of its sender. `too_many`: its sender has eight open requests.
   */
  | {
      readonly type: 'approval_ignored'
      readonly channel: string
      readonly sender: AgentId
      readonly index: number
      readonly reason: 'not_asker' | 'elsewhere' | 'not_asked' | 'repeated' | 'late' | 'invalid' | 'too_many'
    }
  /** The inbox is full. No more messages are fetched until the application reads some. */
  | { readonly type: 'inbox_full'; readonly channel: string }
  /** A Welcome arrived that cannot be used. `channel` is empty if the relay sent no valid name. */
  | { readonly type: 'welcome_refused'; readonly channel: string; readonly error: StaticError }

/** The number of events queued per listener. Beyond that, the oldest are dropped. */
const KEPT = 1024

interface Listener<Item> {
  readonly queue: Item[]
  /** Whether the application has asked for an event. */
  isRead: boolean
  /** Resolves with the next event. All pending `next` calls share it. */
  woken: PromiseWithResolvers<void> | undefined
}

/** Distributes events to all listeners. */
export class Events<Item> {
  readonly #listeners = new Set<Listener<Item>>()
  #closed = false

  emit(event: Item): void {
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

  /** Whether the application reads events. */
  get isRead(): boolean {
    for (const { isRead } of this.#listeners) if (isRead) return true
    return false
  }

  /** Iterates over all events from now on, including those before the first `next`. */
  listen(): AsyncIterableIterator<Item> {
    return this.#iterate([], () => {})
  }

  /** Like `listen`, for the application: first come the events in `first`. */
  read(first: readonly Item[]): AsyncIterableIterator<Item> {
    return this.#iterate(first, (listener) => (listener.isRead = true))
  }

  #iterate(first: readonly Item[], asked: (listener: Listener<Item>) => void): AsyncIterableIterator<Item> {
    const listener: Listener<Item> = { queue: this.#closed ? [] : [...first], isRead: false, woken: undefined }
    this.#listeners.add(listener)
    const next = async (): Promise<IteratorResult<Item>> => {
      asked(listener)
      for (;;) {
        const event = listener.queue.shift()
        if (event !== undefined) return { done: false, value: event }
        if (this.#closed || !this.#listeners.has(listener)) return { done: true, value: undefined }
        listener.woken ??= Promise.withResolvers()
        await listener.woken.promise
      }
    }
    const iterator: AsyncIterableIterator<Item> = {
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
