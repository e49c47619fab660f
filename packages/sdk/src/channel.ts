/** The public view of a channel. */
import { fromHex, MAX_PAYLOAD_BYTES, message, StaticError, toHex } from '@static/protocol'
import { DeleteChannelRequestSchema, LiftBarRequestSchema, RejectCommitRequestSchema } from '@static/protocol/relay'
import type { Agent } from './core/agent/agent.ts'
import { addMembers } from './core/agent/adding.ts'
import type { Incoming } from './core/channel/inbox.ts'
import { leaveChannel } from './core/agent/leaving.ts'
import { removeMember } from './core/agent/removing.ts'
import { resetRoster } from './core/agent/roster-reset.ts'
import type { Membership } from './core/channel/membership.ts'
import { ErrorEdge } from './error-edge.ts'
import { fingerprintOf, parseAgentId } from './fingerprint.ts'
import type { AgentId } from './ports.ts'
import { verificationWords } from './verification.ts'

/** The end of the year 9999. The relay sets message times freely, and other languages' dates end there. */
const LATEST_TIME = Date.UTC(10_000, 0) - 1

/** A member of a channel, identified by its key. */
export interface ChannelMember {
  /** SHA-256 of its public signature key, 64 hexadecimal digits. */
  readonly agentId: AgentId
  /** The agent id in groups of four digits. Compare it with the one its owner sees. */
  readonly fingerprint: string
  /** The name that this agent has chosen for itself. Nothing verifies it. */
  readonly identity: Uint8Array
}

/** A received payload with its metadata. */
export interface Envelope {
  readonly payload: Uint8Array
  /** Verified by the signature on the message. */
  readonly sender: ChannelMember
  readonly messageId: string
  /** Position in the channel's log. */
  readonly index: number
  readonly epoch: number
  /** When the relay accepted the message, by the relay's clock. */
  readonly time: Date
  /** True if the message may have been delivered before, because the program ended before settling it. */
  readonly redelivered: boolean
}

/** Options for adding a member. */
export interface AddOptions {
  /** Accept a key that differs from the one known for this identity. Compare the fingerprint first. */
  readonly acceptNewKey?: boolean
}

/**
 * A channel that this agent is a member of. You can send and receive concurrently, from any number of callers. Network
 * failures, relay restarts and commits by other members are handled internally.
 */
export class Channel implements AsyncDisposable {
  readonly #agent: Agent
  readonly #membership: Membership
  readonly #edge: ErrorEdge

  /** @internal Get channels from a client. */
  constructor(agent: Agent, membership: Membership) {
    this.#agent = agent
    this.#membership = membership
    this.#edge = new ErrorEdge(agent.apiUrl)
  }

  /** The channel's name, `org/namespace/service`. */
  get name(): string {
    return this.#membership.name
  }

  /** The channel id, 32 hexadecimal digits. */
  get id(): string {
    return this.#membership.id
  }

  /** Fingerprint of the agent that owns the channel. */
  get owner(): string {
    return fingerprintOf(this.#membership.owner)
  }

  /**
   * Sends a payload of at most 262,144 bytes to all members. Resolves once the relay has stored it on disk. If the
   * program ends before that, the message is sent at the next start.
   *
   * @throws {StaticError} `too_large`, `quota_exceeded`, `queue_full`, `removed`, `fork_detected`, `mls_error`,
   *   `closed`
   */
  async send(payload: Uint8Array | string): Promise<void> {
    await this.#edge.wait(() => {
      const bytes = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload
      if (bytes.length > MAX_PAYLOAD_BYTES) {
        throw StaticError.of('too_large', `The payload has ${bytes.length} bytes; the limit is ${MAX_PAYLOAD_BYTES}.`)
      }
      // Copied because it may be encrypted later, when the caller has reused the buffer.
      return this.#membership.sender.send('payload', Uint8Array.from(bytes))
    })
  }

  /**
   * Payloads from the other members, starting with the first unsettled one. Does not end until the channel does. Asking
   * for the next payload, or leaving the loop, settles the current one; an unsettled payload is delivered again after a
   * restart. Concurrent iterators share the payloads: each payload goes to one of them.
   *
   * @throws {StaticError} the error that ended the channel: `removed`, `not_found`, `mls_error` or `closed`
   * @example
   * for await (const payload of channel.messages()) handle(payload)
   */
  messages(): AsyncIterableIterator<Uint8Array, undefined, undefined> {
    return this.#edge.iterate(this.#membership.inbox.read(({ payload }) => payload))
  }

  /** Like `messages`, but with the verified sender and the log position of each payload. */
  envelopes(): AsyncIterableIterator<Envelope, undefined, undefined> {
    return this.#edge.iterate(this.#membership.inbox.read(envelopeOf))
  }

  /** The members of the channel, including this agent. */
  members(): readonly ChannelMember[] {
    const { group, failure } = this.#membership
    if (!group) throw this.#edge.mark(failure ?? StaticError.of('closed'))
    return [...group.members.values()].map(({ agentId, identity }) => memberOf(toHex(agentId), identity))
  }

  /**
   * Adds a member. Pass either a KeyPackage that you received over an authenticated path, or an agent id; in that case
   * a KeyPackage is fetched from the relay and checked against the id. The relay delivers the Welcome to the new
   * member. It is also returned, in case you want to deliver it yourself.
   *
   * @throws {StaticError} `identity_changed`, `key_package_unavailable`, `group_full`, `invalid_request`
   */
  async addMember(member: Uint8Array | AgentId, options: AddOptions = {}): Promise<Uint8Array> {
    const [welcome] = await this.addMembers([member], options)
    if (!welcome)
      throw this.#edge.mark(StaticError.of('internal_error', 'The member was added, but no Welcome was created.'))
    return welcome
  }

  /**
   * Adds several members in as few commits as possible and returns their Welcomes in the same order. See `addMember`.
   */
  async addMembers(members: readonly (Uint8Array | AgentId)[], options: AddOptions = {}): Promise<Uint8Array[]> {
    return await this.#edge.wait(() => {
      const parsed = members.map((member) => (typeof member === 'string' ? parseAgentId(member) : member))
      return addMembers(this.#agent, this.#membership, parsed, options.acceptNewKey === true)
    })
  }

  /**
   * Removes a member. Only the owner can do this. The removed member cannot read any message sent afterwards.
   *
   * @throws {StaticError} `not_allowed`, `not_found`
   */
  async removeMember(member: AgentId): Promise<void> {
    await this.#edge.wait(() => removeMember(this.#agent.context, this.#membership, parseAgentId(member)))
  }

  /**
   * Replaces this agent's keys in the group. This also happens automatically every 24 hours and every 10,000 messages.
   */
  async rotate(): Promise<void> {
    await this.#edge.wait(() => this.#membership.upkeep.rekey())
  }

  /**
   * Leaves the channel, even if its group is broken. The owner cannot leave, only delete the channel.
   *
   * @throws {StaticError} `not_allowed` for the owner
   */
  async leave(): Promise<void> {
    await this.#edge.wait(() => leaveChannel(this.#agent, this.#membership))
  }

  /**
   * Deletes the channel for all members. Requires the owner's API key.
   *
   * @throws {StaticError} `not_found`, `api_key_required`
   */
  async delete(): Promise<void> {
    const { channelId } = this.#membership
    const channel = { case: 'channelId', value: channelId } as const
    const { requests, memberships, context } = this.#agent
    const value = message(DeleteChannelRequestSchema, { channel })
    await this.#edge.wait(async () => {
      await requests.ask({ case: 'deleteChannel', value }, () =>
        memberships.drop(this.#membership, StaticError.of('not_found', `Channel ${this.name} was deleted.`)),
      )
      await context.journal.written()
    })
  }

  /**
   * Declares a commit invalid, as the owner; `commit_skipped` events report its slot. The relay undoes its changes to
   * the roster and bars its sender from committing until `liftBar`. The owner's agent already rejects what every member
   * finds invalid and what it cannot follow itself (`unfollowable`); this call is for what it missed, for instance in an
   * epoch that it joined by a Welcome.
   *
   * @throws {StaticError} `not_found`, `not_allowed`
   */
  async rejectCommit(slot: number): Promise<void> {
    const { channelId } = this.#membership
    const value = message(RejectCommitRequestSchema, { channelId, slot: BigInt(slot) })
    await this.#edge.wait(() => this.#agent.requests.ask({ case: 'rejectCommit', value }, () => {}))
  }

  /**
   * Lets a member commit again after one of its commits was rejected. Only the owner can do this.
   *
   * @throws {StaticError} `not_allowed`
   */
  async liftBar(member: AgentId): Promise<void> {
    const { channelId } = this.#membership
    const agentId = fromHex(this.#edge.run(() => parseAgentId(member)))
    const value = message(LiftBarRequestSchema, { channelId, agentId })
    await this.#edge.wait(() => this.#agent.requests.ask({ case: 'liftBar', value }, () => {}))
  }

  /**
   * Resets the relay's roster to the members of the group; owner only. Use it when commits that every member skipped have
   * put agents on the roster that are not in the group, or removed members from it: the former lose their place and
   * their Welcomes, the latter get it back. Bars stay (`liftBar`).
   *
   * @throws {StaticError} `not_allowed`, `epoch_mismatch` while others commit, `fork_detected` or `mls_error` when this agent
   * does not know who is in the group
   */
  async resetRoster(): Promise<void> {
    await this.#edge.wait(() => resetRoster(this.#agent, this.#membership))
  }

  /**
   * Resolves once everything the relay has for this channel is processed. Until then, `members` and `verify` may be out
   * of date. You do not have to read messages meanwhile. Without a connection it waits for one, or until `signal` is
   * aborted.
   *
   * @throws {StaticError} `queue_full` if the inbox is full of unread messages, or the error that ended the channel
   */
  async catchUp(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#edge.wait(() => this.#membership.intake.catchUp(options.signal))
  }

  /**
   * Twelve words that are the same for all members who have seen the same log and the same members. Compare them out of
   * band after `catchUp`, while nobody sends. If they differ, the relay has shown you different logs or members.
   */
  verify(): string {
    const { group, failure, history } = this.#membership
    if (!group) throw this.#edge.mark(failure ?? StaticError.of('closed'))
    return verificationWords(group.facts.epochAuthenticator, history.position)
  }

  /** Resumes sending after `fork_detected`, although a member has seen a different history. Compare `verify` first. */
  acceptFork(): void {
    this.#edge.run(() => this.#membership.acceptFork())
  }

  /** @internal Whether a payload can be read without waiting. */
  get hasNext(): boolean {
    return this.#membership.inbox.hasNext
  }

  /**
   * Settles what was delivered and ends this channel's iterators. The client stays a member: `channel(name)` opens it
   * again.
   */
  close(): void {
    this.#membership.inbox.stop()
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close()
    return Promise.resolve()
  }
}

function memberOf(agentId: AgentId, identity: Uint8Array): ChannelMember {
  return { agentId, fingerprint: fingerprintOf(agentId), identity }
}

function envelopeOf({ record, payload, redelivered }: Incoming): Envelope {
  const { sender, identity, messageId, index, epoch, receivedAt } = record
  return {
    payload,
    sender: memberOf(sender, identity),
    messageId: toHex(messageId),
    index,
    epoch,
    time: new Date(Math.min(receivedAt, LATEST_TIME)),
    redelivered,
  }
}
