/**
 * This agent's messages in one channel, from encryption to the entry in the log. Pure: the caller asks what to send and
 * what to write. A message is *new* until it is on disk, *stored* until it is sent, *sent* until the relay answers,
 * then *answered* until its entry arrives in the log: that entry's hash needs the hash of the message's body.
 *
 * The relay accepts a sender's messages only in the order of their counters. When it refuses one, it refuses all later
 * ones as well. So nothing more is sent until every answer has arrived; then the refused messages are resent in order.
 */
import { sha256 } from '#platform/crypto'
import { type StaticError, toHex } from '@static/protocol'
import { same } from '../../platform/bytes.ts'
import type { AnsweredRecord, Change, ChannelId, OutboxRecord } from '../../ports/index.ts'

/** Returned by `send` once the relay has stored the message. */
export interface SentMessage {
  /** 32 hexadecimal digits. */
  readonly messageId: string
  /** Position in the channel's log, as reported by the relay. Payloads that travel as one message share it. */
  readonly index: number
}

/** A call of `send` that waits until the message is durable at the relay. */
export interface Sending {
  resolve(sent: SentMessage): void
  reject(error: StaticError): void
}

/** A message that the relay has not answered yet. */
export interface Outgoing {
  record: OutboxRecord
  state: 'new' | 'stored' | 'sent' | 'refused' | 'failed' | 'done'
  /** Why it failed. */
  error: StaticError | undefined
  /** The relay refused it without looking it up, so it may have stored it before. */
  mayBeStored: boolean
  /** Undefined after a restart, when no caller is waiting. */
  readonly sending: Sending | undefined
}

/** Limits of unanswered messages and their bytes. A single message of any size is always allowed. */
const WINDOW = 64
const WINDOW_BYTES = 1024 * 1024
const NONE: readonly Outgoing[] = []
const NO_CHANGES: readonly Change[] = []

/** The messages of one channel. */
export class Outbox {
  readonly #id: ChannelId
  /** In order of their counters. */
  #unanswered: Outgoing[]
  #answered: AnsweredRecord[]
  #changes: Change[] = []
  #bytes: number
  /** Whether a message may be in the state `stored`. Checked at every step of the channel, several times per message. */
  #mayHaveStored = true
  /** A message was refused: nothing is sent until every answer has arrived. */
  #stalled = false
  readonly #kept: (record: OutboxRecord, index: number) => readonly Change[]

  /** `kept`: what is kept of a message that the relay has stored; written with its answer. */
  constructor(
    id: ChannelId,
    unanswered: readonly OutboxRecord[] = [],
    answered: readonly AnsweredRecord[] = [],
    kept: (record: OutboxRecord, index: number) => readonly Change[] = () => NO_CHANGES,
  ) {
    this.#id = id
    this.#kept = kept
    this.#unanswered = unanswered.map((record) => outgoingOf(record, 'stored', undefined))
    this.#answered = [...answered]
    this.#bytes = unanswered.reduce((sum, { ciphertext }) => sum + ciphertext.length, 0)
  }

  /** Whether another message may be encrypted. */
  get hasRoom(): boolean {
    return (
      !this.#stalled &&
      (this.#unanswered.length === 0 || (this.#unanswered.length < WINDOW && this.#bytes < WINDOW_BYTES))
    )
  }

  /** Whether a message was refused and all answers have arrived, so that `recover` can resend. */
  get canRecover(): boolean {
    return this.#stalled && this.#unanswered.every(({ state }) => state !== 'sent')
  }

  /** The messages that the relay has not answered, in order. */
  get unanswered(): readonly Outgoing[] {
    return this.#unanswered
  }

  add(record: OutboxRecord, sending: Sending | undefined): void {
    this.#unanswered.push(outgoingOf(record, 'new', sending))
    this.#bytes += record.ciphertext.length
    this.#changes.push({ type: 'putOutbox', id: this.#id, record })
  }

  /** Everything drained is on disk. */
  written(): void {
    for (const message of this.#unanswered) if (message.state === 'new') message.state = 'stored'
    this.#mayHaveStored = true
  }

  /** Returns the messages to send now and marks them as sent. */
  markSent(): readonly Outgoing[] {
    if (this.#stalled || !this.#mayHaveStored) return NONE
    this.#mayHaveStored = false
    const stored = this.#unanswered.filter(({ state }) => state === 'stored')
    for (const message of stored) message.state = 'sent'
    return stored
  }

  /** The relay has stored the message, at this index. */
  answer(message: Outgoing, index: number): void {
    if (message.state === 'done') return
    const { messageId, bodyHash } = this.#accept(message, index)
    this.#changes.push({ type: 'answerOutbox', id: this.#id, messageId, bodyHash })
  }

  /** The relay has refused the message: permanently if there is an error, otherwise until it is resent. */
  refuse(message: Outgoing, error: StaticError | undefined): void {
    if (message.state === 'done') return
    message.state = error === undefined ? 'refused' : 'failed'
    message.error = error
    message.mayBeStored = false
    this.#stalled = true
  }

  /** The relay accepts nothing now. */
  defer(message: Outgoing): void {
    this.refuse(message, undefined)
    message.mayBeStored = true
  }

  /** Refuses all unanswered messages for the same reason. */
  refuseAll(error: StaticError): void {
    for (const message of this.#unanswered) if (message.state !== 'failed') this.refuse(message, error)
  }

  /** The session is lost: sent messages may or may not have arrived, and are resent. */
  sendAgain(): void {
    for (const message of this.#unanswered) {
      // Including permanently refused ones: re-encrypting the others while one of them may have arrived would cause a
      // fork.
      if (message.state !== 'new') message.state = 'stored'
      message.error = undefined
    }
    this.#mayHaveStored = true
    this.#stalled = false
  }

  /**
   * Continues after a refusal: drops the failed messages and queues the rest again, with new records if `renew` is
   * given.
   */
  recover(renew: ((message: Outgoing) => OutboxRecord) | undefined): void {
    for (const message of this.#unanswered.filter(({ state }) => state === 'failed')) {
      const { messageId, messageKey } = message.record
      this.#remove(message)
      messageKey.fill(0)
      this.#changes.push({ type: 'dropOutbox', id: this.#id, messageId })
      if (message.error) message.sending?.reject(message.error)
    }
    for (const message of this.#unanswered) {
      if (renew === undefined) {
        // A message is never sent before it is on disk.
        if (message.state !== 'new') message.state = 'stored'
        continue
      }
      message.state = 'new'
      const { messageKey } = message.record
      message.record = renew(message)
      messageKey.fill(0)
      this.#changes.push({ type: 'putOutbox', id: this.#id, record: message.record })
    }
    this.#mayHaveStored = true
    this.#stalled = false
  }

  /** Handles this agent's entry in the log. Returns the hash of its body; undefined if there is no such message. */
  pass(messageId: Uint8Array, index: number): Uint8Array | undefined {
    const passed = this.#answeredOf(messageId) ?? this.#answerByEntry(messageId, index)
    if (passed === undefined) return undefined
    const rest: AnsweredRecord[] = []
    for (const answered of this.#answered) {
      // Entries arrive in order, so the entries of earlier messages were lost in a gap.
      if (answered.counter > passed.counter) rest.push(answered)
      else this.#changes.push({ type: 'dropOutbox', id: this.#id, messageId: answered.messageId })
    }
    this.#answered = rest
    return passed.bodyHash
  }

  /** Whether a message is on its way into the log. */
  has(messageId: Uint8Array): boolean {
    return (
      this.#answeredOf(messageId) !== undefined ||
      this.#unanswered.some(({ record }) => same(record.messageId, messageId))
    )
  }

  /** Rejects all messages. Nothing more is sent. */
  fail(error: StaticError): void {
    for (const { sending } of this.#unanswered) sending?.reject(error)
    this.#stalled = true
  }

  /** Returns the changes since the last call. */
  drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  #answeredOf(messageId: Uint8Array): AnsweredRecord | undefined {
    return this.#answered.find((answered) => same(answered.messageId, messageId))
  }

  /**
   * The entry of an unanswered message counts as its answer. Its row is dropped immediately, so the answer is not
   * written.
   */
  #answerByEntry(messageId: Uint8Array, index: number): AnsweredRecord | undefined {
    const message = this.#unanswered.find(({ record }) => same(record.messageId, messageId))
    return message && this.#accept(message, index)
  }

  #accept(message: Outgoing, index: number): AnsweredRecord {
    const { messageId, counter, ciphertext, messageKey } = message.record
    const answered = { messageId, counter, bodyHash: sha256(ciphertext) }
    this.#remove(message)
    this.#answered.push(answered)
    this.#changes.push(...this.#kept(message.record, index))
    messageKey.fill(0)
    message.sending?.resolve({ messageId: toHex(messageId), index })
    return answered
  }

  #remove(message: Outgoing): void {
    message.state = 'done'
    this.#bytes -= message.record.ciphertext.length
    // It is nearly always the first of many.
    if (this.#unanswered[0] === message) this.#unanswered.shift()
    else this.#unanswered = this.#unanswered.filter((other) => other !== message)
  }
}

function outgoingOf(record: OutboxRecord, state: Outgoing['state'], sending: Sending | undefined): Outgoing {
  return { record, state, error: undefined, mayBeStored: false, sending }
}
