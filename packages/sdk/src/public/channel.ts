/** The public view of a channel. */
import { StaticError, toHex } from '@static/protocol'
import type { Agent } from '../agent/agent.ts'
import { addMembers } from '../admitting/adding.ts'
import { leaveChannel } from '../agent/leaving.ts'
import { nameStandby, takeOver } from '../agent/ownership.ts'
import { deleteChannel, liftBar, rejectCommit, removeMember, resetRoster, vouch } from '../agent/owning.ts'
import { waitForMember } from './member-wait.ts'
import { handleMessages, type HandleOptions } from '../channel/receiving/handling.ts'
import { Unfit } from '../channel/receiving/unfit.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { InboxEntry } from '../channel/receiving/inbox.ts'
import type { SentMessage } from '../channel/sending/outbox.ts'
import type { ReceiptLevel } from '../channel/receipts/reached.ts'
import { type Answers, type RequestHandler, type ServeOptions, serveRequests } from '../channel/asking/serving.ts'
import { MOST_ASK_BYTES } from '../channel/asking/ask-frame.ts'
import { Approval, type ApprovalResult, requestApproval } from './approvals/approval.ts'
import { Ask } from './ask.ts'
import type { ApprovalOptions, ApprovalWish } from './options/approval-options.ts'
import { checkHandler, checkOptions } from './options/call-options.ts'
import {
  type AddOptions,
  type AskOneOptions,
  type AskOptions,
  type CatchUpOptions,
  type ChannelStandby,
  type HistoryOptions,
  lifetimeOf,
  limitsOf,
  pageOf,
  type SendOptions,
} from './options/channel-options.ts'
import { type Answer, ChannelRequest, Envelope } from './envelope.ts'
import { type HistoryMessage, historyMessageOf } from './received/history-message.ts'
import { poisonMessageOf, type PoisonMessages } from './received/poison-messages.ts'
import { type ChannelMember, type ListedMember, memberOf } from './received/member.ts'
import { deleteFile, type FileHome, ReceivedFile, sendFile } from './received/received-file.ts'
import type { SentFile } from '../files/send-file.ts'
import { type MemberProof, memberProofOf } from '../channel/proving/member-proof.ts'
import type { SendFileOptions } from './options/file-options.ts'
import { ErrorEdge } from './error-edge.ts'
import { requireOf } from './options/invite-options.ts'
import { type AnyServeHandler, type JsonAnswers, jsonAnswers, onlyAnswer } from './json-answers.ts'
import { fingerprintOf, parseAgentId } from './fingerprint.ts'
import { jsonText, payloadBytes } from '../channel/sending/payload.ts'
import type { AgentId } from '../ports/index.ts'
import { removedFrom } from '../channel/removed-error.ts'
import { checkIdentity } from './settings.ts'
import {
  type MemberReceipt,
  memberReceipts,
  questionOf,
  type Reached,
  type ReachedOptions,
  reachedOf,
} from './receipt-view.ts'
import {
  fitted,
  type SchemaInput,
  type SchemaOption,
  type SchemaOutput,
  type StandardSchema,
} from './standard-schema.ts'
import { verificationWords } from './verification.ts'

/**
 * A channel this agent is a member of. You can send and receive concurrently, from any number of callers. Network
 * failures, relay restarts and commits by other members are handled internally.
 */
export class Channel implements AsyncDisposable {
  readonly #agent: Agent
  readonly #channel: AgentChannel
  readonly #edge: ErrorEdge

  /** @internal Get channels from a client. */
  constructor(agent: Agent, channel: AgentChannel) {
    this.#agent = agent
    this.#channel = channel
    this.#edge = new ErrorEdge(agent.apiUrl)
  }

  /** The channel's name, `org/namespace/service`. */
  get name(): string {
    return this.#channel.name
  }

  /** The channel id, 32 hexadecimal digits. */
  get id(): string {
    return this.#channel.id
  }

  /** Fingerprint of the agent that owns the channel. */
  get owner(): string {
    return fingerprintOf(this.#channel.owner)
  }

  /** The member that may take the channel over (`setStandby`), and whether the owner has offered it (`transfer`). */
  get standby(): ChannelStandby | undefined {
    const { standby } = this.#channel
    return standby && { agentId: standby.agent, offered: standby.offered }
  }

  /**
   * Whether the owner has sent anything since this agent joined. Until then, a former member colluding with the relay
   * may have shown this agent an old state of the channel. Event: `confirmed`.
   */
  get confirmed(): boolean {
    return this.#channel.isConfirmed
  }

  /**
   * Sends a string or bytes, at most 262,144 bytes, to all members. Resolves once the relay has stored it on disk.
   * Payloads sent in one turn of the event loop, up to 16, may travel and be charged as one message. If the program
   * ends before that, a message that was already encrypted is sent at the next start. If it waits more than 5 s for a
   * connection, quota, the relay's disk or its rate limit, the event `waiting` says which.
   *
   * @throws {StaticError} `invalid_request` for anything but a string or a Uint8Array, `too_large`, `quota_exceeded`,
   *   `queue_full`, `removed`, `fork_detected`, `mls_error`, `closed`; with `signal` or `timeout`, `cancelled` if the
   *   message will not be sent, and `send_pending` if it may still arrive
   */
  async send(payload: Uint8Array | string, options: SendOptions = {}): Promise<SentMessage> {
    return await this.#edge.wait(async () => {
      checkOptions('send', options)
      return await this.#channel.sender.send('payload', payloadBytes(payload), limitsOf(options))
    })
  }

  /**
   * Sends a value as JSON. The receiver gets it with `envelope.json()`. With `schema`, a value that does not fit is not
   * sent; one that fits is sent as it was passed, so that the receiver's schema finds what yours did.
   *
   * @throws {StaticError} `schema_mismatch`, `invalid_request` for a value that JSON cannot hold; see `send`
   */
  async sendJson<Schema extends StandardSchema | undefined = undefined>(
    value: SchemaInput<Schema>,
    options: SendOptions & SchemaOption<Schema> = {},
  ): Promise<SentMessage> {
    return await this.#edge.wait(async () => {
      checkOptions('sendJson', options)
      const { schema, ...limits } = options
      const text = jsonText(value)
      // The value as the receiver will read it.
      if (schema) await fitted(schema, JSON.parse(text), 'The value')
      return await this.send(text, limits)
    })
  }

  /**
   * Sends a file of any size up to the relay's limit (1 GiB): a path, or a stream of bytes. Its parts go first, encrypted,
   * then the message that names it. The receivers fetch it when they want (`envelope.file`, `files`). Resolves once the
   * relay has stored the message on disk. Each part of 1 MiB, and the message, count as one message. Lost connections are
   * waited out. If the program ends before that, the next call for the same path, with the same name, type and text,
   * continues where it stopped; a stream must be sent again.
   *
   * @throws {StaticError} `file_changed` if something has written to the file since the upload began: nothing was sent;
   *   `invalid_request` if the path is not a file that can be read; `too_large`, `quota_exceeded` and `queue_full` before
   *   the first byte is sent; `not_allowed` with the traffic profiles `private` and `strict` unless the client has
   *   `visibleFiles`; `files_unavailable`, `cancelled`; see `send`
   * @example await channel.sendFile('report.pdf', { type: 'application/pdf', text: 'The report you asked for.' })
   */
  async sendFile(source: string | AsyncIterable<Uint8Array>, options: SendFileOptions = {}): Promise<SentFile> {
    return await this.#edge.wait(() => sendFile(this.#home, source, options))
  }

  /** The files from other members that this agent has neither saved nor dropped, even before a restart. */
  files(): readonly ReceivedFile[] {
    return this.#channel.files
      .list()
      .map((record) => new ReceivedFile(this.#home, record, record, this.#proofOf(record.sender)))
  }

  /**
   * Deletes a file at the relay for all members that have not saved it: one that this agent has sent or, by the owner,
   * any. Pass its id, as `sendFile` returned it.
   *
   * @throws {StaticError} `not_allowed`, `invalid_request`
   */
  async deleteFile(id: string): Promise<void> {
    await this.#asMember(() => deleteFile(this.#home, id))
  }

  /**
   * Payloads from the other members, starting with the first unsettled one: each a `Uint8Array`, which `TextDecoder`
   * turns into text. Does not end until the channel does. Asking for the next payload settles the current one. Leaving the loop by `break` or an error does not: that payload is
   * delivered again in the next loop or after a restart. Concurrent iterators share the payloads: each payload goes to
   * one of them.
   *
   * @throws {StaticError} the error that ended the channel: `removed`, `not_found`, `mls_error` or `closed`
   * @example for await (const payload of channel.messages()) handle(payload)
   */
  messages(): AsyncIterableIterator<Uint8Array, undefined, undefined> {
    return this.#edge.iterate(this.#channel.inbox.read(({ payload }) => payload))
  }

  /**
   * Like `messages`, but with the verified sender and the log position of each payload. `envelope.settle()` settles it
   * immediately.
   */
  envelopes(): AsyncIterableIterator<Envelope, undefined, undefined> {
    const { inbox } = this.#channel
    return this.#edge.iterate(inbox.read((entry) => this.#envelopeOf(entry)))
  }

  /**
   * Calls a function for each message and settles the message when the function succeeds. If it throws or rejects, it
   * is called again after 1, 5, 30, 60 and then every 300 seconds; later messages from the same sender wait. After
   * `attempts` failures (10) the message is put aside on disk and the next one is handled. Events report each failure
   * (`handler_failed`) and each message put aside (`poison`).
   *
   * With `schema`, payloads are JSON, and the function gets the checked value as well. A message whose payload does not
   * fit is put aside at once, with the reason.
   *
   * Resolves when the channel or client is closed, or when `signal` is aborted and the messages in progress are done.
   *
   * @throws {StaticError} `invalid_request` for invalid options, or the error that ended the channel, as in `messages`
   * @example await channel.handle(async (envelope, order) => save(order.id), { schema: z.object({ id: z.string() }) })
   */
  async handle<Schema extends StandardSchema | undefined = undefined>(
    handler: (envelope: Envelope, value: SchemaOutput<Schema, undefined>) => unknown,
    options: HandleOptions & SchemaOption<Schema> = {},
  ): Promise<void> {
    await this.#edge.wait(async () => {
      checkHandler('handle', handler)
      checkOptions('handle', options)
      const { schema, ...limits } = options
      const call = handler as (envelope: Envelope, value?: unknown) => unknown
      const handle = async (entry: InboxEntry): Promise<unknown> => {
        const envelope = this.#envelopeOf(entry)
        if (!schema) return call(envelope)
        return call(envelope, await Unfit.unless(() => fitted(schema, envelope.json(), 'The payload')))
      }
      await handleMessages(this.#agent.context, this.#channel, handle, limits)
    })
  }

  /**
   * Asks a member, or all of them, and returns the answers as they arrive, with their verified senders. The payload is
   * a string or bytes, at most 262,080 bytes. Answers from members that were not asked are ignored. The request is sent
   * like a message and outlives the program: `asked` returns it after a restart, with its unread answers.
   *
   * @throws {StaticError} `invalid_request`, `too_large`, `not_found` if `to` is not a member, `queue_full` if 256
   *   requests of this agent are open; the iterator throws later errors
   * @example for await (const answer of channel.ask('status?', { to: agentId })) console.log(answer.text())
   */
  ask(payload: Uint8Array | string, options: AskOptions = {}): Ask {
    return this.#edge.run(() => {
      checkOptions('ask', options)
      return this.#ask(payload, options)
    })
  }

  /**
   * Asks one member and resolves with its answer. If there are several, this is the first, and the request is
   * cancelled.
   *
   * @throws {StaticError} `ask_failed` if the member answers with an error or without a payload, `ask_timeout`,
   *   `cancelled` if `signal` is aborted; see `ask`
   * @example const answer = await channel.askOne('status?', { to: agentId, timeout: 10 })
   */
  async askOne(payload: Uint8Array | string, options: AskOneOptions): Promise<Answer> {
    return await this.#edge.wait(async () => {
      checkOptions('askOne', options)
      return await this.#askOne(payload, options)
    })
  }

  /**
   * Asks one member with a value as JSON, and resolves with the value of its answer, which is JSON as well. With
   * `schema`, the value of the answer is checked. The other side is `serve` with a schema.
   *
   * @throws {StaticError} `schema_mismatch` or `invalid_json` for the answer; see `askOne`
   * @example const { total } = await channel.askJson({ items }, { to: agentId, schema: z.object({ total: z.number() }) })
   */
  async askJson<Schema extends StandardSchema | undefined = undefined>(
    value: unknown,
    options: AskOneOptions & SchemaOption<Schema>,
  ): Promise<SchemaOutput<Schema, unknown>> {
    return await this.#edge.wait(async () => {
      checkOptions('askJson', options)
      const { schema, ...limits } = options
      const answer = await this.#askOne(jsonText(value), limits)
      const found = answer.json()
      return (schema ? await fitted(schema, found, 'The answer') : found) as SchemaOutput<Schema, unknown>
    })
  }

  /** The open requests of this agent: not fully answered, or with unread answers. */
  asked(): readonly Ask[] {
    return this.#channel.asks.list().map((ask) => new Ask(ask, this.#edge, (agent) => this.#proofOf(agent)))
  }

  /**
   * Asks members to approve an action, and waits until enough have, too few are left, or the time is over. Only
   * `approved` is permission: then `action` has the bytes that they have signed, and the permission is used, so that
   * they are executed at most once. The request outlives the program: `approvals` returns it after a restart.
   *
   * @throws {StaticError} `invalid_request`, `too_large`, `not_found`, `queue_full` beyond eight open ones, `cancelled`
   * @example const { decision, action } = await channel.requestApproval(wish, { from: ['ada', 'ben', 'cy'], need: 2 })
   */
  async requestApproval(wish: ApprovalWish, options: ApprovalOptions): Promise<ApprovalResult> {
    return await this.#asMember(() => requestApproval(this.#home, wish, options))
  }

  /**
   * The approvals that this agent may decide on (`Approval.decide`) until their deadline, and its own, oldest first. No
   * reader of messages and no handler is ever given one: they are for people. Event: `approval_requested`.
   */
  approvals(): readonly Approval[] {
    return this.#channel.approvals.list().map((held) => new Approval(this.#home, held))
  }

  /**
   * Answers requests from other members with the values that the handler yields or returns. If it throws, the error is
   * the answer: the code and message of a `StaticError`, otherwise `internal_error` without details. A request is
   * settled when the relay has accepted its last answer, so one that a killed program had not finished is served again
   * (`redelivered`); the asker takes each answer once. A handler keeps its place until it ends, even if the asker no
   * longer waits: heed `request.signal`.
   *
   * With `schema`, requests and answers are JSON: the handler gets the checked value of the request as well, and what it
   * yields or returns is sent as JSON. A request that does not fit is answered with `schema_mismatch`.
   *
   * Resolves when the channel or client is closed, or when `signal` is aborted and the requests in progress are done.
   *
   * @throws {StaticError} `invalid_request` for invalid options, or the error that ended the channel
   * @example
   * await channel.serve(async function* (request) {
   *   yield `You asked ${request.text()}`
   * })
   */
  async serve<Schema extends StandardSchema | undefined = undefined>(
    handler: (
      request: ChannelRequest,
      value: SchemaOutput<Schema, undefined>,
    ) => Schema extends StandardSchema ? JsonAnswers : Answers,
    options: ServeOptions & SchemaOption<Schema> = {},
  ): Promise<void> {
    await this.#edge.wait(async () => {
      checkHandler('serve', handler)
      checkOptions('serve', options)
      const { schema, ...limits } = options
      const call = handler as AnyServeHandler
      const serve: RequestHandler = (entry, served) => {
        const request = new ChannelRequest(entry, served, this.#proofOf(entry.record.sender))
        return schema ? jsonAnswers(request, schema, (value) => call(request, value)) : (call(request) as Answers)
      }
      await serveRequests(this.#agent.context, this.#channel, serve, limits)
    })
  }

  /**
   * Messages that a handler failed on too often, at most 1,000 of 64 MiB in total. Beyond that, messages are retried.
   */
  get poison(): PoisonMessages {
    const { poison } = this.#channel
    return {
      list: () => this.#edge.run(() => poison.list().map(poisonMessageOf)),
      retry: (message) => this.#edge.wait(() => poison.retry(message)),
      drop: (message) => this.#edge.wait(() => poison.drop(message)),
    }
  }

  /**
   * A page of the messages that the application has settled and those that this agent has sent, the newest first, for an
   * agent that keeps them (the option `history`). It is empty at the end. Large messages make a page shorter, and it
   * is longer if the payloads of one message would be divided.
   *
   * @throws {StaticError} `invalid_request`
   * @example for (let page = await channel.history(); page.length > 0; page = await channel.history({ before: page.at(-1).index })) show(page)
   */
  async history(options: HistoryOptions = {}): Promise<readonly HistoryMessage[]> {
    return await this.#edge.wait(async () => {
      checkOptions('history', options)
      const { before, limit } = pageOf(options)
      const { kept } = this.#channel
      return kept.page(before, limit).map((record) => historyMessageOf(record, this.#agent.agentId))
    })
  }

  /** Deletes the history of this channel. When it resolves, its messages are not in the files of the agent either. */
  async eraseHistory(): Promise<void> {
    await this.#edge.wait(() => this.#agent.keeping.erase(this.#channel.kept))
  }

  /** @internal Like `envelopes`, for messages that count as delivered only once marked as given. */
  readAhead(): AsyncIterableIterator<Envelope, undefined, undefined> {
    const { inbox } = this.#channel
    return this.#edge.iterate(inbox.read((entry) => this.#envelopeOf(entry), { ahead: true }))
  }

  /**
   * How far the other members have processed the channel, as each has signed and this agent has verified. Includes
   * offline members, since the relay keeps their last receipts. The event `receipt` reports later ones. Without a
   * connection, returns the receipts already known.
   */
  async receipts(): Promise<readonly MemberReceipt[]> {
    return await this.#edge.wait(async () => {
      const { group, failure, receipts } = this.#channel
      if (!group) throw failure ?? StaticError.of('closed')
      return memberReceipts(await receipts.current(), group.members)
    })
  }

  /**
   * Resolves once every other member has signed that it has received a message (`delivered`) or that its application
   * has settled it (`settled`, the default), even if the two were never online at the same time. Members that left,
   * were removed, missed the message, put it aside or have receipts off are returned in `unreached`, not waited for.
   *
   * @throws {StaticError} `cancelled`, which names the missing members, when `signal` is aborted or `timeout` expires, `not_found` if this agent sent no
   * such message, `invalid_request`, or the error that ended the channel
   * @example const { unreached } = await channel.reached(await channel.send('deploy'), 'settled', { timeout: 30 })
   */
  async reached(sent: SentMessage, level: ReceiptLevel = 'settled', options: ReachedOptions = {}): Promise<Reached> {
    return await this.#edge.wait(async () => {
      checkOptions('reached', options)
      const question = questionOf(sent, level, options.by, this.#agent.agentId)
      return reachedOf(await this.#channel.receipts.reached(question, limitsOf(options)))
    })
  }

  /** The members of the channel, including this agent. */
  members(): readonly ListedMember[] {
    const { group, failure } = this.#channel
    if (!group) throw this.#edge.mark(failure ?? StaticError.of('closed'))
    const { receipts, owner } = this.#channel
    const isOwner = owner === this.#agent.agentId
    return [...group.members.values()].map(({ agentId: id, identity }) => {
      const agentId = toHex(id)
      return {
        ...memberOf(agentId, identity, this.#proofOf(agentId)),
        vouched: isOwner ? receipts.isVouched(agentId) : undefined,
      }
    })
  }

  /**
   * Resolves with a member once it is in the channel: the one with this agent id, or any other member if none is given.
   *
   * @throws {StaticError} `cancelled` when `signal` is aborted or `timeout` expires, or the error that ended the
   * channel
   */
  async waitForMember(member?: AgentId, options: SendOptions = {}): Promise<ChannelMember> {
    return await this.#edge.wait(async () => {
      checkOptions('waitForMember', options)
      const wanted = member === undefined ? undefined : parseAgentId(member)
      const isWanted = ({ agentId }: ChannelMember): boolean =>
        wanted === undefined ? agentId !== this.#agent.agentId : agentId === wanted
      return await waitForMember(this.#agent, this.name, () => this.members().find(isWanted), limitsOf(options))
    })
  }

  /**
   * Adds a member. Pass either a KeyPackage that you received over an authenticated path, or an agent id: the relay
   * then supplies a KeyPackage, which is checked against the id. The relay delivers the Welcome to the new member. It
   * is also returned, so you can deliver it yourself.
   *
   * @throws {StaticError} `identity_changed`, `key_package_unavailable`, `group_full`, `invalid_request`
   */
  async addMember(member: Uint8Array | AgentId, options: AddOptions = {}): Promise<Uint8Array> {
    this.#edge.run(() => checkOptions('addMember', options))
    const [welcome] = await this.addMembers([member], options)
    if (!welcome)
      throw this.#edge.mark(StaticError.of('internal_error', 'The member was added, but no Welcome was created.'))
    return welcome
  }

  /**
   * Adds several members in as few commits as possible and returns their Welcomes in the same order. See `addMember`.
   */
  async addMembers(members: readonly (Uint8Array | AgentId)[], options: AddOptions = {}): Promise<Uint8Array[]> {
    return await this.#asMember(async () => {
      checkOptions('addMembers', options)
      const parsed = members.map((member) => (typeof member === 'string' ? parseAgentId(member) : member))
      const { acceptNewKey = false, require } = options
      return await addMembers(this.#agent, this.#channel, parsed, { acceptNewKey, require: requireOf(require) })
    })
  }

  /**
   * Accepts a new key for an identity that this agent has added before, in all channels of this channel's owner: from
   * now on the identity is the agent with this id, and its previous agent is refused. Otherwise `addMember` and invites
   * refuse a new key. Compare the id with the identity's holder first.
   *
   * @throws {StaticError} `invalid_request`
   */
  async acceptNewKey(identity: Uint8Array | string, member: AgentId): Promise<void> {
    await this.#asMember(() => {
      const { pins, journal } = this.#agent.context
      pins.set(this.#channel.owner, checkIdentity(identity), parseAgentId(member))
      return journal.written()
    })
  }

  /**
   * Removes a member. Only the owner can do this. The removed member cannot read any message sent afterwards.
   *
   * @throws {StaticError} `not_allowed`, `not_found`, `queue_full`
   */
  async removeMember(member: AgentId): Promise<void> {
    await this.#asMember(() => removeMember(this.#agent.context, this.#channel, parseAgentId(member)))
  }

  /**
   * Replaces this agent's keys in the group. This also happens automatically every 24 hours and every 10,000 messages.
   */
  async rotate(): Promise<void> {
    await this.#asMember(() => this.#channel.upkeep.rekey())
  }

  /**
   * Leaves the channel, even if its group is broken. The owner cannot leave, only delete the channel.
   *
   * @throws {StaticError} `not_allowed` for the owner
   */
  async leave(): Promise<void> {
    await this.#edge.wait(() => leaveChannel(this.#agent, this.#channel))
  }

  /**
   * Deletes the channel for all members. Requires the owner's API key.
   *
   * @throws {StaticError} `not_found`, `api_key_required`
   */
  async delete(): Promise<void> {
    await this.#asMember(() => deleteChannel(this.#agent, this.#channel))
  }

  /**
   * Declares a commit invalid, as the owner; `commit_skipped` events report its slot. The relay undoes its changes to
   * the roster and bars its sender from committing until `liftBar`. The owner's agent already rejects commits that
   * every member finds invalid and commits it cannot follow itself (`unfollowable`). Use this call for those it missed,
   * for instance in an epoch it joined by a Welcome.
   *
   * @throws {StaticError} `not_found`, `not_allowed`
   */
  async rejectCommit(slot: number): Promise<void> {
    await this.#asMember(() => rejectCommit(this.#agent, this.#channel, slot))
  }

  /**
   * Lets a member commit again after one of its commits was rejected. Only the owner can do this.
   *
   * @throws {StaticError} `not_allowed`
   */
  async liftBar(member: AgentId): Promise<void> {
    await this.#asMember(() => liftBar(this.#agent, this.#channel, parseAgentId(member)))
  }

  /**
   * Vouches for a member; owner only. The relay then counts its vote on invalid commits, gives it its own allowance of
   * commits, and keeps entries for it in a full channel. The owner already vouches for members that its program adds
   * (`addMember`) or that it admits with a single-use invite. Use this for members that joined with other invites or
   * were added by others, once you know whose they are. A vouch ends with the membership.
   *
   * @throws {StaticError} `not_allowed`, `not_found` for an agent that is not a member, `epoch_mismatch` while others
   * commit
   */
  async vouch(member: AgentId): Promise<void> {
    await this.#asMember(() => vouch(this.#agent, this.#channel, parseAgentId(member)))
  }

  /**
   * Names the member that may make itself the owner with `takeOver`, at any time: before this agent's machine dies.
   * Without a member, no one may. Only the owner can do this, for a member that it vouches for and that has an account.
   * That member is trusted with the channel as much as this agent. Removing it clears it.
   *
   * @throws {StaticError} `not_allowed`, `not_found` for an agent that is not a member
   * @example await channel.setStandby(backup.agentId)
   */
  async setStandby(member: AgentId | undefined): Promise<void> {
    await this.#asMember(() =>
      nameStandby(this.#channel, member === undefined ? undefined : parseAgentId(member), false),
    )
  }

  /**
   * Offers the channel to a member: names it as the standby and asks it to take over. This agent owns and pays for the
   * channel until that member has called `takeOver`; `setStandby(undefined)` withdraws the offer.
   *
   * @throws {StaticError} `not_allowed`, `not_found` for an agent that is not a member
   */
  async transfer(member: AgentId): Promise<void> {
    await this.#asMember(() => nameStandby(this.#channel, parseAgentId(member), true))
  }

  /**
   * Makes this agent the owner of the channel; only the standby can do this. Its account pays for the channel from then
   * on, and must have room for it and no other channel of that name. The former owner becomes a member, all invites end,
   * and joiners that were not greeted yet leave.
   *
   * @throws {StaticError} `not_allowed`, `api_key_required`, `channel_exists`, `queue_full`, `fork_detected`
   */
  async takeOver(): Promise<void> {
    await this.#asMember(() => takeOver(this.#channel))
  }

  /**
   * Resets the relay's roster to the members of the group; owner only. Use it when commits that every member skipped
   * have added agents to the roster that are not in the group, or dropped members from it: the former lose their place
   * and their Welcomes, the latter regain theirs. Bars (`liftBar`) and vouches (`vouch`) stay.
   *
   * @throws {StaticError} `not_allowed`, `epoch_mismatch` while others commit, `fork_detected` or `mls_error` when this
   * agent does not know who is in the group
   */
  async resetRoster(): Promise<void> {
    await this.#asMember(() => resetRoster(this.#agent, this.#channel))
  }

  /**
   * Resolves once everything the relay has for this channel is processed. Until then, `members` and `verify` may be out
   * of date. You do not have to read messages meanwhile. Without a connection, it waits for one or until `signal` is
   * aborted.
   *
   * @throws {StaticError} `queue_full` if the inbox is full of unread messages, or the error that ended the channel
   */
  async catchUp(options: CatchUpOptions = {}): Promise<void> {
    await this.#edge.wait(async () => {
      checkOptions('catchUp', options)
      await this.#channel.intake.catchUp(options.signal)
    })
  }

  /**
   * Twelve words that are the same for all members that have seen the same log and the same members. Compare them out
   * of band after `catchUp`, while no one sends. If they differ, the relay has shown you different logs or members.
   */
  verify(): string {
    const { group, failure, history } = this.#channel
    if (!group) throw this.#edge.mark(failure ?? StaticError.of('closed'))
    return verificationWords(group.facts.epochAuthenticator, history.position)
  }

  /**
   * Resumes sending after `fork_detected`, even though a member has seen a different history. Compare `verify` first.
   */
  acceptFork(): void {
    this.#edge.run(() => this.#channel.acceptFork())
  }

  /** @internal Whether a payload or the end can be read without waiting for the relay. */
  get hasNext(): boolean {
    return this.#channel.inbox.hasNext
  }

  /**
   * Ends this channel's iterators, `handle` and `serve` calls. The client stays a member: `channel(name)` opens it
   * again.
   */
  close(): void {
    this.#channel.stopReaders()
  }

  /** What a member's last proof is worth. Looked up, never checked for a message. */
  #proofOf(agent: AgentId): MemberProof | undefined {
    const verdict = this.#channel.proving.of(agent)
    return verdict && memberProofOf(verdict)
  }

  get #home(): FileHome {
    return { agent: this.#agent, channel: this.#channel, edge: this.#edge }
  }

  #envelopeOf(entry: InboxEntry): Envelope {
    const { record, file: offered } = entry
    const proof = this.#proofOf(record.sender)
    const file = offered && new ReceivedFile(this.#home, offered, record, proof)
    return new Envelope(entry, this.#channel.inbox, { proof, file })
  }

  #ask(payload: Uint8Array | string, options: AskOptions): Ask {
    const to = options.to === undefined ? undefined : parseAgentId(options.to)
    const question = { payload: payloadBytes(payload, MOST_ASK_BYTES), to, lifetimeMs: lifetimeOf(options) }
    return new Ask(this.#channel.asks.ask({ ...question, signal: options.signal }), this.#edge, (agent) =>
      this.#proofOf(agent),
    )
  }

  async #askOne(payload: Uint8Array | string, options: AskOneOptions): Promise<Answer> {
    if (options.to === undefined)
      throw StaticError.of('invalid_request', '`to` is required: the agent id of the member to ask.')
    return await onlyAnswer(this.#ask(payload, options), options.signal)
  }

  /**
   * Runs an action that only members can take. The relay answers a removed agent with `not_found`, which would mislead.
   */
  async #asMember<Result>(action: () => Promise<Result>): Promise<Result> {
    return await this.#edge.wait(async () => {
      if (this.#channel.failure?.code === 'removed') throw removedFrom(this.name)
      return await action()
    })
  }

  /** Calls `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    this.close()
    return Promise.resolve()
  }
}
