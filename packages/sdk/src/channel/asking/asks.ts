/**
 * The open requests of this agent in one channel. A request's id, addressee and deadline are on disk from the turn in
 * which it is encrypted until it is answered and read, cancelled or timed out; its payload is not. Only the member
 * asked is believed: answers from others are reported and ignored. Answers to other members' requests are not handled
 * here.
 *
 * A server that was killed starts again with its first answer. Answers are numbered, and each number is accepted once.
 */
import { MAX_PAYLOAD_BYTES, MESSAGE_ID_BYTES, StaticError, toHex } from '@static/protocol'
import { ciphertextBytesOf } from '../../mls/index.ts'
import type { AgentId, AskRecord, Change, InboxRecord, StoredChannel } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentEvent } from '../../agent/events.ts'
import { newMessageId } from '../sending/message-id.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'
import { placeOf } from '../receiving/inbox.ts'
import { decodeFrame, FRAME_HEAD_BYTES } from '../sending/message-frame.ts'
import {
  type AnswerBody,
  decodeAnswer,
  decodeRefused,
  encodeCancel,
  encodeMore,
  encodeRequest,
  MOST_ASK_BYTES,
  MOST_OPEN_ASKS,
} from './ask-frame.ts'
import { type AnswerEntry, OpenAsk, sizeOfEntry } from './open-ask.ts'

/** The context it needs from the agent. */
type AsksContext = Pick<AgentContext, 'agentId' | 'engine' | 'journal' | 'now' | 'random' | 'later' | 'emit'>

export interface NewAsk {
  readonly payload: Uint8Array
  /** Undefined: all members. */
  readonly to: AgentId | undefined
  readonly lifetimeMs: number
  /** Cancels it. */
  readonly signal: AbortSignal | undefined
}

type IgnoredReason = Extract<AgentEvent, { readonly type: 'answer_ignored' }>['reason']

/**
 * Limit of unread answers to all requests: for each, one of the largest size or a full window. A third of a sender's
 * own bytes counts twice, so greedy senders leave room for others. Errors count, but are small and always accepted.
 */
const MOST_UNREAD_BYTES: number = MOST_OPEN_ASKS * (MOST_ASK_BYTES + 1024)
const OWN_PART: number = 1 / 3
/** The delay before a failed notice to an answering member is resent. */
const RETRY_MS = 5000

/** The requests of this agent in one channel. */
export class Asks extends Part {
  readonly #context: AsksContext
  readonly #channel: AgentChannel
  readonly #open = new Map<string, OpenAsk>()
  /** The last finished requests, by id, so that late answers to them are reported. */
  readonly #over = new Set<string>()
  /** Per request: stops its timer and its wait to be sent. */
  readonly #stops = new Map<OpenAsk, (() => void)[]>()
  /** Per request to all: the members expected to answer. */
  readonly #expected = new Map<OpenAsk, ReadonlySet<AgentId>>()
  /** Requests that are on disk, or will be once the current changes are written. */
  readonly #stored = new Set<OpenAsk>()
  /** Answers that arrived since the last write. */
  #fresh: AnswerEntry[] = []
  readonly #changed = new Map<OpenAsk, Set<AgentId>>()
  #changes: Change[] = []
  /** Bytes of unread answers, in total and by sender. */
  #unreadBytes = 0
  readonly #unreadOf = new Map<AgentId, number>()
  #ended: StaticError | undefined

  constructor(
    context: AsksContext,
    channel: AgentChannel,
    stored: Pick<StoredChannel, 'asks' | 'answerers' | 'answers'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    for (const record of stored.asks) this.#stored.add(this.#hold(record))
    for (const { messageId, agent, answers, ended } of stored.answerers) {
      this.#open.get(toHex(messageId))?.answererOf(agent).restore(answers, ended)
    }
    if (stored.answers.messages > 0) this.#load()
  }

  /** The open requests, oldest first. */
  list(): readonly OpenAsk[] {
    for (const ask of this.#open.values()) this.#check(ask)
    return [...this.#open.values()]
  }

  /**
   * Asks. The request is sent in the background; if that fails, its reader gets the error.
   *
   * @throws {StaticError} the error that ended the channel, `not_found`, `invalid_request`, `queue_full`
   */
  ask({ payload, to, lifetimeMs, signal }: NewAsk): OpenAsk {
    const { group, name } = this.#channel
    if (this.#ended) throw this.#ended
    if (to === this.#context.agentId) throw StaticError.of('invalid_request', '`to` is this agent. Ask another member.')
    if (to !== undefined && !group?.members.has(to))
      throw StaticError.of('not_found', `Agent ${to} is not a member of channel ${name}.`)
    if (this.#open.size >= MOST_OPEN_ASKS && !this.#dropOverdue()) {
      const text = `This agent has ${MOST_OPEN_ASKS} open requests in channel ${name}, the limit. Read or cancel some of them (\`channel.asked()\`).`
      throw StaticError.of('queue_full', text)
    }
    const record = { messageId: newMessageId(this.#context), to, deadline: this.#context.now() + lifetimeMs }
    const ask = this.#hold(record)
    if (to === undefined) this.#expected.set(ask, new Set(group?.members.keys()))
    const abort = (): void => {
      const text = 'The request was cancelled: its signal was aborted.'
      this.cancel(ask, StaticError.of('cancelled', text, { cause: signal?.reason }))
    }
    this.#stops.get(ask)?.push(
      () => this.#channel.sender.withdraw(record.messageId),
      () => signal?.removeEventListener('abort', abort),
    )
    signal?.addEventListener('abort', abort)
    const sealed = (): void => {
      if (!this.#open.has(ask.id)) return
      this.#stored.add(ask)
      this.#changes.push({ type: 'putAsk', id: this.#channel.id, record })
    }
    const body = encodeRequest({ to, lifetimeMs, payload })
    this.#channel.sender.send('request', body, {}, { messageId: record.messageId, sealed }).catch((error: unknown) => {
      ask.finish(StaticError.from(error))
      if (!this.#ended) this.#close(ask)
    })
    if (signal?.aborted === true) abort()
    this.#check(ask)
    return ask
  }

  /** Handles an answer, or the end of one. */
  arrive(kind: 'answer' | 'answer_end', record: InboxRecord, bytes: Uint8Array): void {
    const request = toHex(bytes.subarray(0, MESSAGE_ID_BYTES))
    const ask = this.#open.get(request)
    if (!ask && !this.#over.has(request)) return
    const body = isCompact(record, bytes) ? decodeAnswer(kind, bytes) : undefined
    const reason = body ? this.#accept(kind, record, body, ask) : 'malformed'
    if (reason === undefined) return
    const { sender, index } = record
    this.#context.emit({ type: 'answer_ignored', channel: this.#channel.name, sender, index, request, reason })
  }

  /** A member refuses some requests. Only the member asked is believed, and only if it has not answered. */
  refused(sender: AgentId, bytes: Uint8Array): void {
    for (const requestId of decodeRefused(bytes) ?? []) {
      const ask = this.#open.get(toHex(requestId))
      if (!ask || ask.to !== sender || ask.isFinished || ask.answererOf(sender).answers > 0) continue
      ask.finish(StaticError.of('queue_full', `Too many requests wait for agent ${sender}. Retry later.`))
      this.#check(ask)
    }
  }

  /** Former members will not answer their requests. */
  override change({ removed }: RosterChange): void {
    if (removed.length === 0) return
    for (const ask of this.#open.values()) {
      if (ask.to !== undefined && removed.includes(ask.to) && !ask.isFinished && !this.#isComplete(ask)) {
        ask.finish(StaticError.of('not_found', `Agent ${ask.to} left the channel before it answered.`))
      }
      this.#check(ask)
    }
  }

  /** Ends all requests in memory. They stay on disk unless the channel is deleted. */
  override end(error: StaticError): void {
    if (this.#ended) return
    this.#ended = error
    for (const ask of this.#open.values()) ask.finish(error)
    for (const stops of this.#stops.values()) for (const stop of stops) stop()
  }

  /** The agent stops: gives the application nothing more. Unread answers stay on disk. */
  override seal(): void {
    for (const ask of this.#open.values()) ask.clear(this.#ended)
  }

  /** Returns the changes since the last call. */
  override drain(): readonly Change[] {
    const { id } = this.#channel
    const changes = this.#changes
    this.#changes = []
    for (const [ask, agents] of this.#changed) {
      if (!this.#stored.has(ask)) continue
      for (const agent of agents) {
        const { answers, ended } = ask.answererOf(agent)
        changes.push({ type: 'putAnswerer', id, record: { messageId: ask.messageId, agent, answers, ended } })
      }
    }
    this.#changed.clear()
    for (const entry of this.#fresh) {
      if (entry.settled) continue
      entry.stored = true
      changes.push({ type: 'putAnswer', id, record: entry.record })
    }
    this.#fresh = []
    return changes
  }

  /** Accepts an answer, or returns why it is ignored. */
  #accept(
    kind: 'answer' | 'answer_end',
    record: InboxRecord,
    { number, content }: AnswerBody,
    ask: OpenAsk | undefined,
  ): IgnoredReason | undefined {
    const { sender } = record
    if (!ask || ask.isFinished) return 'not_open'
    if (ask.to !== undefined && ask.to !== sender) return 'not_asked'
    const answerer = ask.answererOf(sender)
    if (answerer.ended) return 'ended'
    if (number > answerer.answers) return 'out_of_order'
    const isAnswer = content !== undefined && 'payload' in content
    const size = content ? sizeOfEntry({ content }) : 0
    if (isAnswer && answerer.isReplacing(number, size)) this.#retract(ask, sender, number)
    const isRepeated = isAnswer && number < answerer.answers
    if (isRepeated) answerer.repeat(number, size)
    // An end without an answer is never refused, because it is not resent.
    else if (isAnswer && (answerer.isFull(size) || !this.#hasRoom(sender, size))) return 'too_many'
    else if (content) {
      // The error of a restarted server may come earlier than that.
      this.#push(ask, { record, number: answerer.answers, content, stored: false, settled: false })
    }
    answerer.ended = kind === 'answer_end'
    this.#change(ask, sender)
    this.#notify(ask, sender)
    this.#check(ask)
    return isRepeated ? 'repeated' : undefined
  }

  #retract(ask: OpenAsk, sender: AgentId, number: number): void {
    for (const entry of ask.retract(sender, number)) this.#settle(entry)
    this.#change(ask, sender)
  }

  #change(ask: OpenAsk, sender: AgentId): void {
    const changed = this.#changed.get(ask) ?? new Set()
    this.#changed.set(ask, changed.add(sender))
    this.#channel.turn.touchPart()
  }

  #push(ask: OpenAsk, entry: AnswerEntry): void {
    this.#count(entry, 1)
    this.#fresh.push(entry)
    ask.push(entry)
  }

  #hasRoom(sender: AgentId, size: number): boolean {
    const own = this.#unreadOf.get(sender) ?? 0
    const isFull = (): boolean => this.#unreadBytes + own * OWN_PART + size > MOST_UNREAD_BYTES
    while (isFull() && this.#dropOverdue());
    return !isFull()
  }

  #count({ record: { sender }, content }: Pick<AnswerEntry, 'record' | 'content'>, sign: 1 | -1): void {
    const size = sign * sizeOfEntry({ content })
    const own = (this.#unreadOf.get(sender) ?? 0) + size
    this.#unreadBytes += size
    if (own > 0) this.#unreadOf.set(sender, own)
    else this.#unreadOf.delete(sender)
  }

  /** Drops the oldest request that is past its deadline with unread answers. Returns whether there was one. */
  #dropOverdue(): boolean {
    const now = this.#context.now()
    for (const ask of this.#open.values()) {
      if (!ask.isFinished || ask.deadline > now) continue
      this.#close(ask)
      return true
    }
    return false
  }

  /** Loads the unread answers of an earlier run. */
  #load(): void {
    const { id } = this.#channel
    for (const record of this.#context.journal.answers(id)) {
      const frame = decodeFrame(this.#context.engine.reopen(record.ciphertext, record.messageKey))
      const isEnd = frame?.kind === 'answer_end'
      const body = frame && decodeAnswer(isEnd ? 'answer_end' : 'answer', frame.payload)
      const ask = body && this.#open.get(toHex(body.requestId))
      if (!ask || !body.content) {
        this.#changes.push({ type: 'dropAnswer', id, place: placeOf(record) })
        this.#channel.turn.touchPartLater()
        continue
      }
      const entry = { record, number: body.number, content: body.content, stored: true, settled: false }
      this.#count(entry, 1)
      ask.push(entry)
    }
  }

  #hold(record: AskRecord): OpenAsk {
    const ask = new OpenAsk(this.#channel, record)
    this.#open.set(ask.id, ask)
    const wait = Math.max(0, record.deadline - this.#context.now())
    this.#stops.set(ask, [this.#context.later(wait, () => this.#expire(ask))])
    return ask
  }

  /** The application has read an answer. */
  read(ask: OpenAsk, entry: AnswerEntry): void {
    if (!entry.settled) this.#changes.push(...this.#channel.kept.read(entry, ask.messageId))
    this.#settle(entry)
    this.#notify(ask, entry.record.sender)
    this.#check(ask)
  }

  /** The application begins to read. */
  attach(ask: OpenAsk): void {
    for (const agent of ask.answerers.keys()) this.#notify(ask, agent)
    this.#check(ask)
  }

  /** Ends a request. The members asked are notified unless they are done. */
  cancel(ask: OpenAsk, error?: StaticError): void {
    if (!this.#open.has(ask.id) || this.#ended) return ask.clear()
    const isDone = ask.isFinished || this.#isComplete(ask)
    const isSent = this.#stored.has(ask)
    ask.finish(error)
    this.#close(ask)
    if (isDone || !isSent) return
    // If it is lost, the answers are ignored.
    this.#channel.sender.send('cancel', encodeCancel(ask.messageId)).catch(() => {})
  }

  #expire(ask: OpenAsk): void {
    if (ask.to !== undefined) {
      const text = `Agent ${ask.to} did not answer in time. The request may still have been carried out.`
      ask.finish(StaticError.of('ask_timeout', text))
    } else ask.finish(undefined)
    if (ask.isEmpty) this.#close(ask)
  }

  /** Finishes a request once it is answered, and forgets it once everything is read. */
  #check(ask: OpenAsk): void {
    if (this.#ended) return
    if (!ask.isFinished && this.#isComplete(ask)) ask.finish(undefined)
    if (ask.isFinished && ask.isSettled) this.#close(ask)
  }

  /** The members that were asked and have not ended their answers. */
  missing(ask: OpenAsk): readonly AgentId[] {
    const hasEnded = (agent: AgentId): boolean => ask.answerers.get(agent)?.ended === true
    if (ask.to !== undefined) return hasEnded(ask.to) ? [] : [ask.to]
    const expected = this.#expected.get(ask)
    const members = [...(this.#channel.group?.members.keys() ?? [])]
    return members.filter(
      (agent) => agent !== this.#context.agentId && !hasEnded(agent) && expected?.has(agent) !== false,
    )
  }

  #isComplete(ask: OpenAsk): boolean {
    return this.missing(ask).length === 0
  }

  #close(ask: OpenAsk): void {
    if (!this.#open.delete(ask.id)) return
    for (const stop of this.#stops.get(ask) ?? []) stop()
    this.#stops.delete(ask)
    this.#expected.delete(ask)
    this.#changed.delete(ask)
    for (const entry of ask.unsettled) this.#settle(entry)
    ask.clear()
    this.#over.add(ask.id)
    for (const oldest of this.#over) {
      if (this.#over.size <= MOST_OPEN_ASKS) break
      this.#over.delete(oldest)
    }
    if (!this.#stored.delete(ask)) return
    this.#changes.push({ type: 'dropAsk', id: this.#channel.id, messageId: ask.messageId })
    this.#channel.turn.touchPartLater()
  }

  #settle(entry: AnswerEntry): void {
    if (entry.settled) return
    entry.settled = true
    entry.record.messageKey.fill(0)
    this.#count(entry, -1)
    if (!entry.stored) return
    this.#changes.push({ type: 'dropAnswer', id: this.#channel.id, place: placeOf(entry.record) })
    // If a crash undoes this, the answer is delivered again.
    this.#channel.turn.touchPartLater()
  }

  /** Lets a member send more answers once half a window is read. */
  #notify(ask: OpenAsk, agent: AgentId): void {
    const answerer = ask.answererOf(agent)
    if (!answerer.isDue || ask.isFinished || this.#ended) return
    this.#channel.sender.send('more', encodeMore(ask.messageId, answerer.confirm())).catch(() => {
      answerer.unconfirm()
      if (answerer.isRetrying) return
      answerer.isRetrying = true
      this.#context.later(RETRY_MS, () => {
        answerer.isRetrying = false
        this.#notify(ask, agent)
      })
    })
  }
}

/** Whether a message has no more padding than needed. Its ciphertext is kept, but limits count the content. */
function isCompact({ ciphertext }: InboxRecord, { length }: Uint8Array): boolean {
  return length <= MAX_PAYLOAD_BYTES && ciphertext.length <= ciphertextBytesOf(FRAME_HEAD_BYTES + length)
}
