/**
 * This agent's messages in one channel, from `send` to the relay's answer. A message is encrypted at the end of the
 * turn if there is room, stored, then sent (the steps are in turn.ts); payloads of one turn go together (waiting.ts).
 * If the group has since moved to another epoch, the relay refuses it. It is then decrypted with its message key and
 * encrypted for the new epoch under the same id, in order with the others.
 */
import { sha256 } from '#platform/crypto'
import { message, StaticError } from '@static/protocol'
import { SendMessageRequestSchema, type SendMessageResponse } from '@static/protocol/relay'
import type { Change, Outcome, OutboxRecord, StoredChannel } from '../../ports/index.ts'
import { refusalError, retryDelay } from '../../ports/refusal.ts'
import type { AgentContext } from '../../agent/context.ts'
import { newMessageId } from './message-id.ts'
import { relayRolledBack, rolledBack } from '../log/contradiction.ts'
import type { GroupState } from '../group-state.ts'
import type { AgentChannel } from '../channel.ts'
import { Part } from '../part.ts'
import { decodeFrame, encodeFrame, type Frame, type FrameKind, isControl } from './message-frame.ts'
import { Outbox, type Outgoing, type SentMessage } from './outbox.ts'
import { Pace } from './pace.ts'
import { packIdOf } from './pack.ts'
import { limitSend, type SendLimits, SendWatch } from './send-wait.ts'
import { type NamedMessage, type WaitingMessage, WaitingMessages } from './waiting.ts'

/** The context that a sender needs from its agent. */
type SenderContext = Pick<AgentContext, 'engine' | 'session' | 'now' | 'random' | 'later' | 'emit'>

/** How often the first message is resent as out of order until one is accepted. */
const MOST_REORDERS = 5

/**
 * How many generations of an epoch messages refused by the relay may use up. Other members allow 1,024
 * (sender-trust.ts). Beyond this, nothing is encrypted without new keys.
 */
const MOST_BURNT = 768

const NO_CHANGES: readonly Change[] = []

/** The sending side of a channel. */
export class Sender extends Part {
  readonly #context: SenderContext
  readonly #channel: AgentChannel
  readonly #outbox: Outbox
  readonly #pace: Pace
  readonly #waiting = new WaitingMessages()
  /** The counter of the last encrypted message, and the hash of its frame. */
  counter: number
  ownHash: Uint8Array
  /** The number of messages encrypted since this agent last replaced its keys. */
  sentSinceRekey: number
  #notBefore = 0
  #cancel: (() => void) | undefined
  /** Why the relay accepts nothing now, if the reason is temporary. */
  #refusal: StaticError | undefined
  readonly #watch: SendWatch
  #reorders = 0
  /** Why the relay refuses all unanswered messages. */
  #blockedBy: StaticError | undefined
  /** The relay refused the last message, so messages are tried one at a time. */
  #isProbing = false

  constructor(
    context: SenderContext,
    channel: AgentChannel,
    { record, outbox, answered }: Pick<StoredChannel, 'record' | 'outbox' | 'answered'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    this.#outbox = new Outbox(channel.id, outbox, answered, (sent, index) => this.#kept(sent, index))
    this.#pace = new Pace(context, channel)
    this.counter = record.counter
    this.ownHash = record.ownHash
    this.sentSinceRekey = record.sentSinceRekey
    this.#watch = new SendWatch(context, channel.name, {
      isWaiting: () => this.#isPayloadWaiting,
      obstacle: () => this.#obstacle,
    })
  }

  /**
   * Sends a message. Resolves when the relay has stored it durably.
   *
   * @throws {StaticError} the error that ended the channel, `fork_detected`, or the relay's refusal
   */
  async send(kind: FrameKind, payload: Uint8Array, limits: SendLimits = {}, as?: NamedMessage): Promise<SentMessage> {
    const refusal = kind === 'hello' ? this.#channel.failure : this.#channel.standing.refusal()
    if (refusal) throw refusal
    if (limits.signal?.aborted) {
      const text = 'The message was not sent and will not be. The signal was aborted before the call.'
      throw StaticError.of('cancelled', text, { cause: limits.signal.reason })
    }
    const { promise, resolve, reject } = Promise.withResolvers<SentMessage>()
    const waiting: WaitingMessage = { kind, payload, as, sending: { resolve, reject } }
    if (this.#waiting.isEmpty && this.#outbox.unanswered.length === 0) this.#watch.progress()
    this.#waiting.add(waiting)
    if (!isControl(kind)) this.#watch.begin()
    this.#channel.turn.work()
    const forget = limitSend(this.#context, limits, (cause, reason) => this.#cancelSend(waiting, cause, reason))
    return await (forget === undefined ? promise : promise.finally(forget))
  }

  /** The number of generations of this epoch used up by messages that the relay refused. */
  get burnt(): number {
    const [first] = this.#outbox.canRecover ? this.#outbox.unanswered : []
    // Refused messages are re-encrypted, starting with the first one's counter.
    return this.#channel.group?.burnt(first ? first.record.counter - 1 : this.counter) ?? 0
  }

  /** Whether messages wait to be encrypted, and there is room. */
  get isReady(): boolean {
    return !this.#waiting.isEmpty && this.#outbox.hasRoom && !(this.#isProbing && this.#outbox.unanswered.length > 0)
  }

  /** Resends refused messages, if possible. `rekeyFailure`: why the keys cannot be replaced now. */
  work(group: GroupState, rekeyFailure: StaticError | undefined): void {
    if (this.#context.now() >= this.#notBefore && this.#outbox.canRecover) this.#recover(group, rekeyFailure)
  }

  /**
   * Encrypts as many queued messages as there is room for. The group must stay in use until the end of the turn.
   * `rekeyFailure`: why the keys cannot be replaced now.
   */
  encrypt(group: GroupState, rekeyFailure: StaticError | undefined): void {
    if (this.#context.now() < this.#notBefore) return
    while (this.isReady) {
      if (this.burnt >= MOST_BURNT) {
        if (rekeyFailure) this.rejectQueued(exhausted(this.burnt, rekeyFailure))
        return
      }
      if (!this.#pace.allow()) return
      const waiting = this.#waiting.removeNext()
      if (waiting) this.#encryptOne(group, waiting)
    }
  }

  /** Retries queued messages after a change. */
  retry(): void {
    this.#channel.turn.work()
  }

  /** Everything drained is on disk. */
  override written(): void {
    this.#outbox.written()
  }

  /** Sends stored messages. */
  transmit(): void {
    if (this.#context.now() < this.#notBefore) return
    const { session } = this.#context
    for (const outgoing of this.#outbox.markSent()) {
      const { messageId, counter, slot, control, ciphertext, fileId } = outgoing.record
      session.request(
        {
          case: 'sendMessage',
          value: message(SendMessageRequestSchema, {
            channelId: this.#channel.channelId,
            slot: BigInt(slot),
            messageId,
            counter: BigInt(counter),
            control,
            ciphertext,
            ...(fileId ? { fileId } : {}),
          }),
        },
        (outcome) => this.#answered(outgoing, outcome),
      )
    }
  }

  /** The session is lost. */
  override lose(): void {
    this.#blockedBy = undefined
    this.#refusal = undefined
    this.#outbox.sendAgain()
  }

  /** Whether a message, or its pack, is on its way into the log. */
  isPending(messageId: Uint8Array): boolean {
    return this.#outbox.has(packIdOf(messageId))
  }

  /** Handles this agent's entry in the log. Returns the hash of its body; undefined if there is no such message. */
  pass(messageId: Uint8Array, index: number): Uint8Array | undefined {
    return this.#outbox.pass(messageId, index)
  }

  /** Cancels the message with this id if it is not encrypted yet, so that it is not sent. */
  withdraw(messageId: Uint8Array): void {
    const waiting = this.#waiting.named(messageId)
    if (!waiting) return
    this.#waiting.remove(waiting)
    waiting.sending.reject(StaticError.of('cancelled', 'The message was not sent and will not be. It was withdrawn.'))
  }

  /** Rejects all queued messages. Encrypted ones continue. */
  rejectQueued(error: StaticError): void {
    this.#waiting.refuse(error)
  }

  /** Rejects all messages. Nothing more is sent. */
  override end(error: StaticError): void {
    this.#cancel?.()
    this.#pace.end()
    this.#watch.stop()
    this.rejectQueued(error)
    this.#outbox.fail(error)
  }

  override drain(): readonly Change[] {
    return this.#outbox.drain()
  }

  /** Ends a caller's wait. An encrypted message is still sent, because later ones follow it in the chain. */
  #cancelSend(waiting: WaitingMessage, cause: unknown, reason: string): void {
    const why = `${reason} Waiting for: ${this.#obstacle.message}`
    const { sending } = waiting
    if (this.#waiting.remove(waiting)) {
      sending.reject(StaticError.of('cancelled', `The message was not sent and will not be. ${why}`, { cause }))
    } else {
      const text = `The message may still arrive: it is stored and will be sent as soon as possible. Do not send it again. ${why}`
      sending.reject(StaticError.of('send_pending', text, { cause }))
    }
  }

  /** Whether a message of the application is pending. The agent's own heartbeats do not count. */
  get #isPayloadWaiting(): boolean {
    return this.#waiting.hasPayload || this.#outbox.unanswered.some(({ record }) => !record.control)
  }

  /** Why pending messages are not sent or not answered. */
  get #obstacle(): StaticError {
    return (
      this.#refusal ?? this.#channel.turn.obstacle() ?? StaticError.of('unavailable', 'The relay has not answered yet.')
    )
  }

  #encryptOne(group: GroupState, { kind, payload, as, sending }: WaitingMessage): void {
    const messageId = as?.messageId ?? newMessageId(this.#context)
    let record: OutboxRecord
    try {
      record = this.#seal(group, { kind, messageId, payload }, as?.fileId)
    } catch (error) {
      sending.reject(StaticError.from(error))
      return
    } finally {
      // This is the only copy here that is not the caller's.
      if (kind === 'pack') payload.fill(0)
    }
    this.#outbox.add(record, sending)
    as?.sealed()
    this.#channel.turn.touch()
  }

  #seal(
    group: GroupState,
    message: Pick<Frame, 'messageId' | 'payload'> & { kind: FrameKind },
    fileId: Uint8Array | undefined,
  ): OutboxRecord {
    const { position } = this.#channel.history
    const counter = this.counter + 1
    const plaintext = encodeFrame({ ...message, counter, previous: this.ownHash, seen: position })
    const { ciphertext, messageKey } = group.seal(plaintext)
    this.counter = counter
    this.sentSinceRekey++
    this.ownHash = sha256(plaintext)
    plaintext.fill(0)
    const control = isControl(message.kind)
    return { messageId: message.messageId, counter, control, slot: position.slot, fileId, ciphertext, messageKey }
  }

  #answered(message: Outgoing, outcome: Outcome): void {
    switch (outcome.type) {
      case 'answered':
        this.#reorders = 0
        this.#isProbing = false
        this.#refusal = undefined
        this.#watch.progress()
        if (outcome.body.case === 'sendMessage') this.#pace.heed(outcome.body.value.waitMs, outcome.body.value.lagging)
        this.#outbox.answer(message, Number((outcome.body.value as SendMessageResponse).index))
        // If a crash undoes this, the message is resent and gets the same answer.
        this.#channel.turn.touchLater()
        break
      case 'lost':
        // The next session resends it.
        return
      case 'refused':
        this.#refused(message, outcome.error)
        break
    }
    this.#channel.turn.work()
  }

  #kept(record: OutboxRecord, index: number): readonly Change[] {
    const { kept, turn } = this.#channel
    let changes = NO_CHANGES
    if (kept.isOn) turn.attempt(() => (changes = kept.sent(record, index)))
    return changes
  }

  #refused(message: Outgoing, refusal: Extract<Outcome, { type: 'refused' }>['error']): void {
    switch (refusal.code) {
      case 'epoch_mismatch':
        this.#channel.intake.raiseHead(Number(refusal.head ?? 0n))
        this.#outbox.refuse(message, undefined)
        return
      case 'out_of_order': {
        this.#outbox.refuse(message, undefined)
        const last = Number(refusal.lastCounter ?? 0n)
        const [first] = this.#outbox.unanswered
        if (last >= message.record.counter && last >= (first?.record.counter ?? 0)) {
          this.#channel.break(rolledBack(`${last} messages sent`, `${message.record.counter} messages sent`))
        } else if (message === first && ++this.#reorders > MOST_REORDERS) {
          // Messages behind a refused one are out of order for that reason. The first one follows an answered message.
          this.#channel.break(
            relayRolledBack(`it ends at message ${last} of this agent, but the relay had accepted more`),
          )
        }
        return
      }
      case 'unavailable':
      case 'rate_limited':
        this.#outbox.defer(message)
        this.#refusal = refusalError(refusal)
        this.#waitFor(retryDelay(refusal.retryAfterMs))
        return
      case 'too_large':
      case 'invalid_request':
      // The message names a file that the relay does not have, or not completely.
      case 'file_expired':
      case 'file_incomplete':
      case 'files_unavailable':
        this.#outbox.refuse(message, refusalError(refusal))
        return
      default:
        if (refusal.lagging.length > 0) this.#pace.heed(undefined, refusal.lagging)
        // The channel or the account is the cause, so later messages would be refused as well.
        this.#blockedBy = refusalError(refusal)
        this.#refusal = undefined
        // Otherwise each queued message would be tried in turn.
        if (this.#isProbing && this.#outbox.unanswered.length === 1) this.rejectQueued(this.#blockedBy)
        this.#isProbing = true
        this.#outbox.refuse(message, this.#blockedBy)
    }
  }

  #waitFor(milliseconds: number): void {
    const context = this.#context
    this.#notBefore = Math.max(this.#notBefore, context.now() + milliseconds)
    this.#cancel?.()
    this.#cancel = context.later(this.#notBefore - context.now(), () => {
      // The timer may fire slightly early by the clock, and nothing else would wake this up.
      this.#notBefore = 0
      this.#channel.turn.work()
    })
  }

  /** Resends refused messages once all answers have arrived, re-encrypted if necessary. */
  #recover(group: GroupState, rekeyFailure: StaticError | undefined): void {
    const { slot } = this.#channel.history.position
    // Resent unchanged, before another message's refusal ends it or it gets a new ciphertext. If the log has reached a
    // later slot without it, the relay does not have it.
    if (this.#outbox.unanswered.some(({ mayBeStored, record }) => mayBeStored && record.slot === slot)) {
      this.#blockedBy = undefined
      this.#outbox.sendAgain()
      return this.#channel.turn.touch()
    }
    const isExhausted = this.burnt >= MOST_BURNT
    // They can be re-encrypted with new keys.
    if (isExhausted && !this.#blockedBy && !rekeyFailure) return
    if (this.#blockedBy) this.#outbox.refuseAll(this.#blockedBy)
    else if (isExhausted && rekeyFailure) this.#outbox.refuseAll(exhausted(this.burnt, rekeyFailure))
    this.#blockedBy = undefined
    const { unanswered } = this.#outbox
    const [first] = unanswered
    const sameBytes = unanswered.every(({ state, record }) => state !== 'failed' && record.slot === slot)
    if (first === undefined || sameBytes) {
      this.#outbox.recover(undefined)
    } else {
      // The first remaining message now takes the place of the first unanswered one in the chain.
      const base = this.#frameOf(first)
      this.counter = base.counter - 1
      group.rewind(this.counter)
      this.ownHash = Uint8Array.from(base.previous)
      this.#outbox.recover((message) => {
        const { kind, messageId, payload } = this.#frameOf(message)
        const again = { kind: kind ?? 'heartbeat', messageId: Uint8Array.from(messageId), payload } as const
        return this.#seal(group, again, message.record.fileId)
      })
    }
    this.#channel.turn.touch()
  }

  #frameOf({ record }: Outgoing): Frame {
    const frame = decodeFrame(this.#context.engine.reopen(record.ciphertext, record.messageKey))
    if (frame === undefined) throw StaticError.of('store_corrupt', 'A message in the outbox is malformed.')
    return frame
  }
}

function exhausted(burnt: number, cause: StaticError): StaticError {
  const text = `The relay has refused ${burnt} messages since the keys were last replaced, and the keys cannot be replaced now: ${cause.message} Retry later.`
  return StaticError.of(cause.code, text, { cause })
}
