/**
 * How a channel stands with the relay: whether the relay delivers, which entries wait to be processed, what was
 * acknowledged and what is missing. The relay delivers from the answer to Resume on; when the inbox is full, entries are
 * dropped, and asked for again once there is room.
 */
import { StaticError, toHex } from '@static/protocol'
import type { ChannelState } from '@static/protocol/relay'
import type { ChannelRecord, PositionRecord } from '../../ports.ts'
import type { AgentContext } from '../agent/context.ts'
import type { ResumeQuestion } from '../agent/deliveries.ts'
import { CatchUp } from './catch-up.ts'
import { contradiction, isLaterStay } from './contradiction.ts'
import type { ChannelView, Turn } from './host.ts'
import type { Inbox } from './inbox.ts'
import { lastIndexOf, type LogEntry, sizeOf } from './log-entry.ts'
import type { Standing } from './standing.ts'

/** What the relay does for this channel at the moment. */
type Link =
  /** No session, or no answer to the last Resume yet: what is delivered before it might not fit, and is dropped. */
  | { readonly type: 'waiting' }
  /** The relay delivers, and takes what is sent. */
  | { readonly type: 'delivering' }
  /** The inbox is full. Online, the relay still takes what is sent. */
  | { readonly type: 'paused'; readonly isOnline: boolean }
  /** Nothing more is wanted from the relay, in this life of the agent. */
  | { readonly type: 'ended' }

/** What an intake asks of its agent. */
type IntakeContext = Pick<AgentContext, 'deliveries' | 'emit' | 'later'>

/** What an intake asks of its membership. */
export interface IntakeHost extends Pick<Turn, 'touch' | 'work' | 'break'> {
  /** The counter of the last own message. */
  readonly counter: number
  /** Whether no task has the group to itself. */
  readonly isFree: boolean
  /** Processes the next entry. */
  take(entry: LogEntry): void
  /** The relay delivers from here on. */
  resumed(): void
  /** The relay says that the membership is over. */
  over(code: 'removed' | 'not_found'): void
}

/** How often entries that were left out are asked for again. */
const MOST_HOLES = 3

/** When a channel is asked for again that the relay does not deliver. */
const RESUME_AGAIN_MS = 5000

const WAITING: Link = { type: 'waiting' }

/** The receiving side of a membership, towards the relay. */
export class Intake {
  readonly #context: IntakeContext
  readonly #channel: ChannelView
  readonly #host: IntakeHost
  readonly #inbox: Inbox
  readonly #standing: Standing
  readonly #catchUp = new CatchUp()
  #link: Link = WAITING
  /** How often the relay was asked to deliver: only the answer to the last question counts. */
  #questions = 0
  /** Entries that wait for those before them. */
  #inbound: LogEntry[] = []
  /** How many commits the relay has taken, as far as it has said. */
  #head = 0
  /** How often entries were missing since the last one that was not. */
  #holes = 0
  #acknowledged: number
  /** What this session has brought; 0 without one. The relay takes no acknowledgement of what an earlier one brought. */
  #delivered = 0
  /** Entries up to this one may have been given to the application before; known for sure after the first Resume. */
  #redeliveredUpTo: number
  /** None beyond was, whatever the relay has. */
  readonly #givenUpTo: number
  #hasResumed = false

  constructor(
    context: IntakeContext,
    channel: ChannelView,
    host: IntakeHost,
    { inbox, standing }: { readonly inbox: Inbox; readonly standing: Standing },
    { position: { index }, givenUpTo }: Pick<ChannelRecord, 'position' | 'givenUpTo'>,
  ) {
    this.#context = context
    this.#channel = channel
    this.#host = host
    this.#inbox = inbox
    this.#standing = standing
    this.#acknowledged = index
    this.#redeliveredUpTo = Math.min(index, givenUpTo)
    this.#givenUpTo = givenUpTo
  }

  /** Whether the relay is to deliver the channel. */
  get isWanted(): boolean {
    if (this.#link.type === 'paused' || this.#link.type === 'ended' || !this.#channel.group) return false
    return this.#standing.record.state !== 'leaving' && !this.#standing.failure
  }

  /** Whether the relay takes what is sent: there is a session, and it is in the same epoch as this agent. */
  get isCurrent(): boolean {
    return this.isOnline && !this.#isBehind
  }

  /** Whether the relay has resumed the channel in this session. */
  get isOnline(): boolean {
    return this.#link.type === 'delivering' || (this.#link.type === 'paused' && this.#link.isOnline)
  }

  /** Why nothing can be sent before the application reads, if so. */
  get blocked(): StaticError | undefined {
    return this.#link.type === 'paused' && !this.isCurrent ? inboxFull() : undefined
  }

  /** Whether the application may have been given an entry before. */
  isRedelivered(index: number): boolean {
    return index <= this.#redeliveredUpTo
  }

  /** Fulfilled when everything is processed that the relay has now; without a session, that it has in the next one. */
  async catchUp(signal?: AbortSignal): Promise<void> {
    // The answer to a question from before this call does not tell what the relay has by now.
    if (this.#checkWanted() && !this.isOnline) await this.#catchUp.wait(signal)
    if (!this.#checkWanted()) return
    if (this.isOnline) this.resume()
    await this.#catchUp.wait(signal)
  }

  // ---- The session ----

  /** The log begins here for this agent: nothing of it was given to the application. */
  start(index: number): void {
    this.#acknowledged = index
    this.#redeliveredUpTo = index
    this.#hasResumed = true
  }

  /** Asks the relay to deliver from here on. */
  resume(): void {
    // A full inbox asks when it has room.
    if (this.#link.type !== 'ended' && this.#link.type !== 'paused') this.#context.deliveries.resume([this.question()])
  }

  /** The question that the relay is about to be asked. Those from before it need no answer any more. */
  question(): ResumeQuestion {
    const number = ++this.#questions
    this.#link = WAITING
    this.#catchUp.forget()
    this.#forgetInbound()
    return {
      id: this.#channel.id,
      isOpen: () => number === this.#questions && this.isWanted,
      answer: (state) => this.resumed(state),
    }
  }

  /** The answer to Resume: the relay delivers from here on. */
  resumed(state: ChannelState): void {
    if (!this.isWanted) return
    const host = this.#host
    const refused = state.error?.code
    if (refused !== undefined) {
      if (refused === 'removed' || refused === 'not_found') host.over(refused)
      else this.#resumeLater()
      return
    }
    const { name, owner } = this.#channel
    const { index } = this.#position
    if (isLaterStay(state, index)) {
      // What was left of the earlier stay is gone with it. The Welcome to the later one waits until this one is read.
      this.#context.emit({ type: 'gap', channel: name, first: index + 1, last: Number(state.addedIndex) })
      return host.over('removed')
    }
    const error = contradiction(state, this.#position, host.counter)
    if (error) return host.break(error)
    if (state.name !== name || toHex(state.owner) !== owner) {
      const detail = 'The relay says that the channel has another name or owner.'
      this.#context.emit({ type: 'roster_lie', channel: name, detail })
    }
    const cursor = Number(state.cursor?.index ?? 0n)
    if (!this.#hasResumed) {
      this.#redeliveredUpTo = Math.min(Number(state.lastIndex), this.#givenUpTo)
      this.#inbox.limitGivenBefore(this.#redeliveredUpTo)
    }
    this.#hasResumed = true
    this.#acknowledged = cursor
    this.#delivered = cursor
    this.#link = { type: 'delivering' }
    this.#forgetInbound()
    // Not the highest that was ever told: a head that does not exist would hold everything up for good.
    this.#head = Number(state.head)
    this.#catchUp.expect(Number(state.lastIndex))
    this.#catchUp.reached(this.#position.index)
    host.resumed()
  }

  /** The session is over. */
  lose(): void {
    if (this.#link.type === 'paused') this.#link = { type: 'paused', isOnline: false }
    else if (this.#link.type !== 'ended') this.#link = WAITING
    this.#delivered = 0
    this.#forgetInbound()
    this.#catchUp.forget()
  }

  /** Nothing more is wanted: whoever waits gets the error. */
  end(error: StaticError): void {
    this.#link = { type: 'ended' }
    this.#catchUp.fail(error)
    this.#forgetInbound()
  }

  // ---- Entries ----

  /** An entry has come, or a notice of those that will not. */
  deliver(entry: LogEntry): void {
    if (!this.isOnline || this.#standing.failure) return
    if (this.#link.type === 'paused') {
      if (entry.case === 'deliverCommit') this.raiseHead(Number(entry.value.slot) + 1)
      return this.#host.work()
    }
    this.#delivered = Math.max(this.#delivered, lastIndexOf(entry))
    this.#inbound.push(entry)
    this.#context.deliveries.queued(sizeOf(entry))
    this.pump()
  }

  /** Processes the entries that wait, as far as the group is free. */
  pump(): void {
    const host = this.#host
    while (host.isFree && !this.#standing.failure) {
      const entry = this.#inbound.shift()
      if (!entry) break
      this.#context.deliveries.queued(-sizeOf(entry))
      const { index } = this.#position
      host.take(entry)
      if (this.#position.index > index) this.#holes = 0
      if (this.#inbox.isFull) this.#pause()
    }
    this.#catchUp.reached(this.#position.index)
    host.work()
  }

  /** The relay has taken at least so many commits. */
  raiseHead(head: number): void {
    this.#head = Math.max(this.#head, head)
  }

  /** The relay is asked once more for what it left out; then it is not believed any longer. */
  missing(index: number): void {
    if (++this.#holes > MOST_HOLES) {
      return this.#host.break(StaticError.of('mls_error', `The relay does not deliver entry ${index}.`))
    }
    this.resume()
  }

  /** An entry has come again: the relay has not heard how far this agent is. */
  repeated(index: number): void {
    this.#acknowledged = Math.min(this.#acknowledged, index)
    this.#host.touch()
  }

  /** What was processed is on disk: the session that has brought it is told, also while the relay is asked again. */
  acknowledge(): void {
    const index = Math.min(this.#position.index, this.#delivered)
    if (index <= this.#acknowledged) return
    this.#acknowledged = index
    this.#context.deliveries.acknowledge(this.#channel.id, index)
  }

  /** Asks for what was dropped if the application has made room for it. */
  unpause(): void {
    if (this.#link.type !== 'paused' || !this.#inbox.hasRoom) return
    this.#link = WAITING
    this.resume()
  }

  // ---- Inside ----

  /** The last entry that was processed. */
  get #position(): PositionRecord {
    return this.#channel.history.position
  }

  get #isBehind(): boolean {
    return this.#position.slot < this.#head
  }

  /** Whether entries come; throws why they do not if that is no wish of the application. */
  #checkWanted(): boolean {
    const error = this.#standing.failure ?? (this.#link.type === 'paused' ? inboxFull() : undefined)
    if (error) throw error
    return this.isWanted
  }

  /** Unless the relay is asked before. */
  #resumeLater(): void {
    const number = this.#questions
    this.#context.later(RESUME_AGAIN_MS, () => {
      if (number === this.#questions) this.resume()
    })
  }

  #pause(): void {
    const link = this.#link
    // What was processed last may have ended the channel, too.
    if (link.type !== 'ended' && link.type !== 'paused') {
      this.#link = { type: 'paused', isOnline: link.type === 'delivering' }
    }
    this.#forgetInbound()
    this.#catchUp.forget()
    this.#catchUp.fail(inboxFull())
    this.#context.emit({ type: 'inbox_full', channel: this.#channel.name })
  }

  #forgetInbound(): void {
    for (const entry of this.#inbound) this.#context.deliveries.queued(-sizeOf(entry))
    this.#inbound = []
  }
}

function inboxFull(): StaticError {
  return StaticError.of('queue_full', 'The inbox is full: read messages of this channel, then go on.')
}
