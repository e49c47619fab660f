/**
 * The state of a channel with the relay: whether it delivers, and which entries are queued, acknowledged or missing.
 * The relay delivers once it has answered Resume. While the inbox is full, entries are dropped; they are requested
 * again once there is room. While the owner removes a member, more is accepted: the removal is an entry behind all
 * others, and a member could fill the inbox to avoid being removed.
 */
import { StaticError, toHex } from '@static/protocol'
import type { ChannelState } from '@static/protocol/relay'
import type { ChannelRecord, PositionRecord } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { ResumeQuestion } from '../../agent/deliveries.ts'
import { CatchUp } from './catch-up.ts'
import { contradiction, isLaterStay } from '../log/contradiction.ts'
import type { AgentChannel } from '../channel.ts'
import { Part } from '../part.ts'
import { lastIndexOf, type LogEntry, sizeOf } from '../log/log-entry.ts'

/** The current state of delivery. */
type Link =
  /**
   * No session, or no answer to the last Resume yet. Entries that arrive before it might not fit, so they are dropped.
   */
  | { readonly type: 'waiting' }
  /** The relay delivers, and accepts messages. */
  | { readonly type: 'delivering' }
  /** The inbox is full. If online, the relay still accepts messages. */
  | { readonly type: 'paused'; readonly isOnline: boolean }
  /** Nothing more is requested from the relay until the agent restarts. */
  | { readonly type: 'ended' }

/** The context that an intake needs from its agent. */
type IntakeContext = Pick<AgentContext, 'deliveries' | 'emit' | 'later'>

/** How often missing entries are requested again. */
const MOST_HOLES = 3

/** The delay before requesting a channel again that the relay does not deliver. */
const RESUME_AGAIN_MS = 5000

const WAITING: Link = { type: 'waiting' }

/** The receiving side of a channel. */
export class Intake extends Part {
  readonly #context: IntakeContext
  readonly #channel: AgentChannel
  readonly #catchUp = new CatchUp()
  #link: Link = WAITING
  /** The number of Resume requests. Only the answer to the last one counts. */
  #questions = 0
  /** Entries queued behind earlier ones. */
  #inbound: LogEntry[] = []
  /** The number of commits that the relay has reported as accepted. */
  #head = 0
  /** How often entries were missing since the last progress. */
  #holes = 0
  #acknowledged: number
  #mostAcknowledged = Infinity
  /** The last index delivered in this session; 0 without one. The relay accepts no acknowledgement beyond it. */
  #delivered = 0
  /** Entries up to this one may have been delivered to the application before. Exact after the first Resume. */
  #redeliveredUpTo: number
  /** No entry beyond this one was delivered before, whatever the relay reports. */
  readonly #givenUpTo: number
  #hasResumed = false
  /** Callbacks that give up each removal in progress. */
  readonly #removals = new Set<(error: StaticError) => void>()

  constructor(
    context: IntakeContext,
    channel: AgentChannel,
    { position: { index }, givenUpTo }: Pick<ChannelRecord, 'position' | 'givenUpTo'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    this.#acknowledged = index
    this.#redeliveredUpTo = Math.min(index, givenUpTo)
    this.#givenUpTo = givenUpTo
  }

  /** Whether the relay should deliver the channel. */
  get isWanted(): boolean {
    if (this.#link.type === 'paused' || this.#link.type === 'ended' || !this.#channel.group) return false
    return this.#channel.standing.record.state !== 'leaving' && !this.#channel.failure
  }

  /** Whether the relay accepts messages: there is a session, and this agent is in the relay's epoch. */
  get isCurrent(): boolean {
    return this.isOnline && !this.#isBehind
  }

  /** Whether the relay has resumed the channel in this session. */
  get isOnline(): boolean {
    return this.#link.type === 'delivering' || (this.#link.type === 'paused' && this.#link.isOnline)
  }

  /** Why nothing can be sent until the application reads, if nothing can. */
  get blocked(): StaticError | undefined {
    return this.#link.type === 'paused' && !this.isCurrent ? inboxFull() : undefined
  }

  /** Whether an entry may have been delivered to the application before. */
  isRedelivered(index: number): boolean {
    return index <= this.#redeliveredUpTo
  }

  /** Resolves when everything the relay has now is processed; without a session, everything it has in the next one. */
  async catchUp(signal?: AbortSignal): Promise<void> {
    // The answer to an earlier Resume does not include what the relay has received since.
    if (this.#checkWanted() && !this.isOnline) await this.#catchUp.wait(signal)
    if (!this.#checkWanted()) return
    if (this.isOnline) this.resume()
    await this.#catchUp.wait(signal)
  }

  // ---- The session ----

  /** The log begins here for this agent. None of it was delivered to the application. */
  start(index: number): void {
    this.#acknowledged = index
    this.#redeliveredUpTo = index
    this.#hasResumed = true
  }

  /** Asks the relay to deliver. */
  resume(): void {
    // A full inbox resumes when it has room.
    if (this.#link.type !== 'ended' && this.#link.type !== 'paused') this.#context.deliveries.resume([this.question()])
  }

  /** Prepares the next Resume. Answers to earlier ones are ignored. */
  question(): ResumeQuestion {
    const number = ++this.#questions
    this.#link = WAITING
    this.#catchUp.forget()
    this.#forgetInbound()
    return {
      id: this.#channel.id,
      receipts: this.#channel.receipts.demand,
      isOpen: () => number === this.#questions && this.isWanted,
      answer: (state) => this.answered(state),
    }
  }

  /** Handles the answer to Resume: the relay delivers from now on. */
  answered(state: ChannelState): void {
    if (!this.isWanted) return
    const channel = this.#channel
    const refused = state.error?.code
    if (refused !== undefined) {
      if (refused === 'removed' || refused === 'not_found') channel.over(refused)
      else this.#resumeLater()
      return
    }
    const { name, owner } = channel
    const { index } = this.#position
    if (isLaterStay(state, index)) {
      // The rest of the earlier membership is lost. The Welcome to the later one waits until this one has been read.
      this.#context.emit({ type: 'gap', channel: name, first: index + 1, last: Number(state.addedIndex) })
      return channel.over('removed')
    }
    const error = contradiction(state, this.#position, channel.sender.counter)
    if (error) return channel.break(error)
    // Behind the head, this agent may not have read yet that another agent has taken the channel over.
    const isOwnerKnown = Number(state.head) === this.#position.slot
    if (state.name !== name || (isOwnerKnown && toHex(state.owner) !== owner)) {
      const detail = 'The relay reports a different name or owner for this channel.'
      this.#context.emit({ type: 'roster_lie', channel: name, detail })
    }
    const cursor = Number(state.cursor?.index ?? 0n)
    if (!this.#hasResumed) {
      this.#redeliveredUpTo = Math.min(Number(state.lastIndex), this.#givenUpTo)
      channel.inbox.limitGivenBefore(this.#redeliveredUpTo)
      channel.requests.inbox.limitGivenBefore(Number(state.lastIndex))
    }
    this.#hasResumed = true
    this.#acknowledged = cursor
    this.#delivered = cursor
    this.#link = { type: 'delivering' }
    this.#forgetInbound()
    // Not the highest ever reported: a nonexistent head would block the channel forever.
    this.#head = Number(state.head)
    this.#catchUp.expect(Number(state.lastIndex))
    this.#catchUp.reached(this.#position.index)
    channel.turn.attempt(() => channel.resumed())
  }

  /** The session is lost. */
  override lose(): void {
    if (this.#link.type === 'paused') this.#link = { type: 'paused', isOnline: false }
    else if (this.#link.type !== 'ended') this.#link = WAITING
    this.#delivered = 0
    this.#forgetInbound()
    this.#catchUp.forget()
  }

  /** Stops receiving. Pending calls get the error. */
  override end(error: StaticError): void {
    this.#link = { type: 'ended' }
    this.#catchUp.fail(error)
    this.#forgetInbound()
  }

  // ---- Entries ----

  /** Handles a delivered entry, or a notice of entries that were deleted. */
  deliver(entry: LogEntry): void {
    if (!this.isOnline || this.#channel.failure) return
    if (this.#link.type === 'paused') {
      if (entry.case === 'deliverCommit') this.raiseHead(Number(entry.value.slot) + 1)
      return this.#channel.turn.work()
    }
    this.#delivered = Math.max(this.#delivered, lastIndexOf(entry))
    this.#inbound.push(entry)
    this.#context.deliveries.queued(sizeOf(entry))
    this.pump()
  }

  /** Processes queued entries while the group is free. */
  pump(): void {
    const { turn, follower } = this.#channel
    while (turn.isFree && !this.#channel.failure) {
      const entry = this.#inbound.shift()
      if (!entry) break
      this.#context.deliveries.queued(-sizeOf(entry))
      const { index } = this.#position
      turn.attempt(() => follower.follow(entry))
      if (this.#position.index > index) this.#holes = 0
      if (this.#isFull) this.#pause()
    }
    this.#catchUp.reached(this.#position.index)
    turn.work()
  }

  /** The relay has accepted at least `head` commits. */
  raiseHead(head: number): void {
    this.#head = Math.max(this.#head, head)
  }

  /** Requests missing entries again, a few times; then the channel breaks. */
  missing(index: number): void {
    if (++this.#holes > MOST_HOLES) {
      return this.#channel.break(StaticError.of('mls_error', `The relay does not deliver entry ${index}.`))
    }
    this.resume()
  }

  /** An entry was delivered again, so the relay missed an acknowledgement. */
  repeated(index: number): void {
    this.#acknowledged = Math.min(this.#acknowledged, index)
    this.#channel.turn.touch()
  }

  /**
   * Acknowledges entries on disk to the session that delivered them, even while a Resume is unanswered, together with
   * their receipt if there is one.
   */
  acknowledge(receipt: Uint8Array | undefined): void {
    const index = Math.min(this.#position.index, this.#delivered, this.#mostAcknowledged)
    if (index <= this.#acknowledged && !receipt) return
    this.#acknowledged = Math.max(this.#acknowledged, index)
    this.#context.deliveries.acknowledge(this.#channel.id, this.#acknowledged, receipt)
  }

  /**
   * The last entry removed this agent and added it again. The relay would take an acknowledgement of it for that of the
   * Welcome, which is not on disk, and delete the Welcome.
   */
  leaveLast(): void {
    this.#mostAcknowledged = this.#position.index - 1
  }

  /** Sends a receipt for entries acknowledged earlier. */
  sendReceipt(receipt: Uint8Array): void {
    this.#context.deliveries.acknowledge(this.#channel.id, this.#acknowledged, receipt)
  }

  /** Requests dropped entries again once the application has made room. */
  unpause(): void {
    if (this.#link.type !== 'paused' || !this.#channel.inbox.hasRoom) return
    this.#link = WAITING
    this.resume()
  }

  /**
   * Accepts entries past a full inbox while a member is being removed.
   *
   * @throws {StaticError} as the removal, and `queue_full` if the inbox is full even for that
   */
  async receiveForRemoval(removal: () => Promise<void>): Promise<void> {
    const { promise, reject } = Promise.withResolvers<never>()
    this.#removals.add(reject)
    try {
      if (this.#channel.inbox.isFullForRemoval) throw fullForRemoval()
      if (this.#link.type === 'paused') {
        this.#link = WAITING
        this.resume()
      }
      await Promise.race([removal(), promise])
    } finally {
      this.#removals.delete(reject)
      if (this.#link.type === 'delivering' && this.#isFull) this.#pause()
    }
  }

  // ---- Internals ----

  get #isFull(): boolean {
    return this.#removals.size > 0 ? this.#channel.inbox.isFullForRemoval : this.#channel.inbox.isFull
  }

  /** The last processed entry. */
  get #position(): PositionRecord {
    return this.#channel.history.position
  }

  get #isBehind(): boolean {
    return this.#position.slot < this.#head
  }

  /** Whether entries arrive. If not, throws the reason, unless the application asked for it. */
  #checkWanted(): boolean {
    const error = this.#channel.failure ?? (this.#link.type === 'paused' ? inboxFull() : undefined)
    if (error) throw error
    return this.isWanted
  }

  /** Resumes after a delay, unless another cause resumes first. */
  #resumeLater(): void {
    const number = this.#questions
    this.#context.later(RESUME_AGAIN_MS, () => {
      if (number === this.#questions) this.resume()
    })
  }

  #pause(): void {
    const link = this.#link
    // The last entry may also have ended the channel.
    if (link.type !== 'ended' && link.type !== 'paused') {
      this.#link = { type: 'paused', isOnline: link.type === 'delivering' }
    }
    this.#forgetInbound()
    this.#catchUp.forget()
    this.#catchUp.fail(inboxFull())
    this.#context.emit({ type: 'inbox_full', channel: this.#channel.name })
    for (const giveUp of this.#removals) giveUp(fullForRemoval())
  }

  #forgetInbound(): void {
    for (const entry of this.#inbound) this.#context.deliveries.queued(-sizeOf(entry))
    this.#inbound = []
  }
}

function inboxFull(): StaticError {
  return StaticError.of('queue_full', 'The inbox of this channel is full. Read its messages, then retry.')
}

function fullForRemoval(): StaticError {
  const text = 'The inbox of this channel is full, even for a removal. Read its messages, then check the members:'
  return StaticError.of('queue_full', `${text} the removal may have happened; if it has not, retry.`)
}
