/** A channel as the application uses it. */
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

/** The end of the year 9999: no calendar of another language goes on, and the relay may say what it likes. */
const LATEST_TIME = Date.UTC(10_000, 0) - 1

/** Somebody in a channel, known by its key. */
export interface ChannelMember {
  /** SHA-256 of its signature key, 64 hexadecimal digits. */
  readonly agentId: AgentId
  /** The same for people, to compare with what its holder sees. */
  readonly fingerprint: string
  /** What this key calls itself: nothing more than that. */
  readonly identity: Uint8Array
}

/** A payload and what is known of it. */
export interface Envelope {
  readonly payload: Uint8Array
  /** Verified by its signature. */
  readonly sender: ChannelMember
  readonly messageId: string
  /** Its place in the channel's log. */
  readonly index: number
  readonly epoch: number
  /** When the relay took it, by the relay's clock. */
  readonly time: Date
  /** It may have been given before: the program ended before it had settled it. */
  readonly redelivered: boolean
}

/** How a member is added. */
export interface AddOptions {
  /** Takes a key that is not the one by which this identity was known. Compare the fingerprint first. */
  readonly acceptNewKey?: boolean
}

/**
 * A channel that this agent is in. Sending and receiving go on at the same time, from any number of callers. A lost
 * network, a restarted relay and commits of others are handled inside.
 */
export class Channel implements AsyncDisposable {
  readonly #agent: Agent
  readonly #membership: Membership
  readonly #edge: ErrorEdge

  /** @internal Channels come from a client. */
  constructor(agent: Agent, membership: Membership) {
    this.#agent = agent
    this.#membership = membership
    this.#edge = new ErrorEdge(agent.apiUrl)
  }

  /** `org/namespace/service`. */
  get name(): string {
    return this.#membership.name
  }

  /** 32 hexadecimal digits. */
  get id(): string {
    return this.#membership.id
  }

  /** The fingerprint of the agent that owns the channel. */
  get owner(): string {
    return fingerprintOf(this.#membership.owner)
  }

  /**
   * Sends a payload of at most 262,144 bytes to all members. Fulfilled when the relay has it on disk; if the program
   * ends before, it goes out at the next start.
   *
   * @throws {StaticError} `too_large`, `quota_exceeded`, `queue_full`, `removed`, `fork_detected`, `mls_error`, `closed`
   */
  async send(payload: Uint8Array | string): Promise<void> {
    await this.#edge.wait(() => {
      const bytes = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload
      if (bytes.length > MAX_PAYLOAD_BYTES) throw StaticError.of('too_large')
      // A copy: it may be encrypted later, and the caller may use its buffer again.
      return this.#membership.sender.send('payload', Uint8Array.from(bytes))
    })
  }

  /**
   * The payloads of the others, from the first that is not settled, for ever. A payload is settled when the next one is
   * asked for or the loop is left; until then it is given again after a restart. Several iterators share the payloads:
   * each goes to one.
   *
   * @throws {StaticError} what ended the channel: `removed`, `not_found`, `mls_error`, `closed`
   * @example
   * for await (const payload of channel.messages()) handle(payload)
   */
  messages(): AsyncIterableIterator<Uint8Array, undefined, undefined> {
    return this.#edge.iterate(this.#membership.inbox.read(({ payload }) => payload))
  }

  /** As `messages`, with the verified sender and the place of each payload. */
  envelopes(): AsyncIterableIterator<Envelope, undefined, undefined> {
    return this.#edge.iterate(this.#membership.inbox.read(envelopeOf))
  }

  /** Who is in the channel, this agent included. */
  members(): readonly ChannelMember[] {
    const { group, failure } = this.#membership
    if (!group) throw this.#edge.mark(failure ?? StaticError.of('closed'))
    return [...group.members.values()].map(({ agentId, identity }) => memberOf(toHex(agentId), identity))
  }

  /**
   * Adds a member: by a KeyPackage that came by an authentic way, or by agent id, with a KeyPackage that the relay holds
   * and that is checked against the id. The Welcome is delivered to it; it is returned for those who hand it over
   * themselves.
   *
   * @throws {StaticError} `identity_changed`, `key_package_unavailable`, `group_full`, `invalid_request`
   */
  async addMember(member: Uint8Array | AgentId, options: AddOptions = {}): Promise<Uint8Array> {
    const [welcome] = await this.addMembers([member], options)
    if (!welcome) throw this.#edge.mark(StaticError.of('internal_error', 'A member was added without a Welcome.'))
    return welcome
  }

  /** Adds several members in as few commits as can be; the Welcomes are in the same order. As `addMember`. */
  async addMembers(members: readonly (Uint8Array | AgentId)[], options: AddOptions = {}): Promise<Uint8Array[]> {
    return await this.#edge.wait(() => {
      const parsed = members.map((member) => (typeof member === 'string' ? parseAgentId(member) : member))
      return addMembers(this.#agent, this.#membership, parsed, options.acceptNewKey === true)
    })
  }

  /**
   * Removes a member; only the owner may. From the next message on it can read nothing.
   *
   * @throws {StaticError} `not_allowed`, `not_found`
   */
  async removeMember(member: AgentId): Promise<void> {
    await this.#edge.wait(() => removeMember(this.#agent.context, this.#membership, parseAgentId(member)))
  }

  /** Replaces this agent's keys in the group. It happens by itself every 24 hours and 10,000 messages. */
  async rotate(): Promise<void> {
    await this.#edge.wait(() => this.#membership.upkeep.rekey())
  }

  /**
   * Leaves the channel; works with a broken group, too. The owner cannot leave: it deletes the channel.
   *
   * @throws {StaticError} `not_allowed` for the owner
   */
  async leave(): Promise<void> {
    await this.#edge.wait(() => leaveChannel(this.#agent, this.#membership))
  }

  /**
   * Deletes the channel for everybody. Needs the owner's API key.
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
        memberships.drop(this.#membership, StaticError.of('not_found', 'The channel was deleted.')),
      )
      await context.journal.written()
    })
  }

  /**
   * The owner's word that a commit is invalid (`commit_skipped` tells its slot): what it did to the relay's roster is
   * undone and its sender barred from committing, until `liftBar`. Other members vote by themselves.
   *
   * @throws {StaticError} `not_found`, `not_allowed`
   */
  async rejectCommit(slot: number): Promise<void> {
    const { channelId } = this.#membership
    const value = message(RejectCommitRequestSchema, { channelId, slot: BigInt(slot) })
    await this.#edge.wait(() => this.#agent.requests.ask({ case: 'rejectCommit', value }, () => {}))
  }

  /**
   * Lets a member commit again whose commit was rejected; only the owner may.
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
   * Makes the relay's roster the members of the group; only the owner may. For when commits that everybody left out have
   * put agents on the roster that are not in the group, or taken members off it: those lose their place with their
   * Welcomes, these get it back. Bars stay (`liftBar`).
   *
   * @throws {StaticError} `not_allowed`, `epoch_mismatch` while others commit, `fork_detected` or `mls_error` when this agent
   * does not know who is in the group
   */
  async resetRoster(): Promise<void> {
    await this.#edge.wait(() => resetRoster(this.#agent, this.#membership))
  }

  /**
   * Fulfilled when everything is processed that the relay has: until then `members` and `verify` may tell of the time
   * before. Messages need not be read for it. Without a connection it waits for one, or until `signal` is aborted.
   *
   * @throws {StaticError} `queue_full` when so much is unread that nothing more is taken, or what ended the channel
   */
  async catchUp(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#edge.wait(() => this.#membership.intake.catchUp(options.signal))
  }

  /**
   * Twelve words that are the same for all members who have seen the same: compare them by another way while nobody
   * sends, after `catchUp`. They differ if the relay has shown you different logs or members.
   */
  verify(): string {
    const { group, failure, history } = this.#membership
    if (!group) throw this.#edge.mark(failure ?? StaticError.of('closed'))
    return verificationWords(group.facts.epochAuthenticator, history.position)
  }

  /** Goes on after `fork_detected`, although a member has seen another history. Compare `verify` first. */
  acceptFork(): void {
    this.#edge.run(() => this.#membership.acceptFork())
  }

  /** @internal Whether a payload is there for whoever asks now. */
  get hasNext(): boolean {
    return this.#membership.inbox.hasNext
  }

  /** Settles and ends the iterators of this channel that wait; it stays in the client, which can open it again by `channel(name)`. */
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
