/**
 * This agent's own messages in one channel, from the encryption to the entry in the log. Pure: what is to be sent and
 * what is to be written is asked for. A message is *new* until it is on disk, *stored* until it is sent, *sent* until
 * the relay answers, then *answered* until its own entry has passed in the log, for whose hash its body's hash is needed.
 *
 * The relay takes messages of a sender by their counters only. So when one is refused, all that follow it are refused,
 * too: nothing more is sent until every answer is in, and then they go out again in order.
 */
import { type StaticError, toHex } from '@static/protocol'
import type { AnsweredRecord, Change, ChannelId, OutboxRecord } from '../../ports.ts'
import { same } from '../bytes.ts'
import { sha256 } from './history.ts'

/** Where a message is, once the relay has it. */
export interface Receipt {
  /** 32 hexadecimal digits. */
  readonly messageId: string
  /** Position in the channel's log, as the relay says. */
  readonly index: number
}

/** Who waits for a message to be durable at the relay; nobody after a restart. */
export interface Sending {
  resolve(receipt: Receipt): void
  reject(error: StaticError): void
}

/** A message that the relay has not answered. */
export interface Outgoing {
  record: OutboxRecord
  state: 'new' | 'stored' | 'sent' | 'refused' | 'failed' | 'done'
  /** Why it failed. */
  error: StaticError | undefined
  readonly sending: Sending | undefined
}

/** How many messages, and bytes, may be under way. One of any size always may. */
const WINDOW = 64
const WINDOW_BYTES = 1024 * 1024

/** The messages of one channel. */
export class Outbox {
  readonly #id: ChannelId
  /** In order of their counters. */
  #unanswered: Outgoing[]
  #answered: AnsweredRecord[]
  #changes: Change[] = []
  #bytes: number
  /** Something was refused: nothing is sent until every answer is in. */
  #stalled = false

  constructor(id: ChannelId, unanswered: readonly OutboxRecord[] = [], answered: readonly AnsweredRecord[] = []) {
    this.#id = id
    this.#unanswered = unanswered.map((record) => ({ record, state: 'stored', error: undefined, sending: undefined }))
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

  /** Whether something was refused and all answers are in: time to send again. */
  get isSettled(): boolean {
    return this.#stalled && this.#unanswered.every(({ state }) => state !== 'sent')
  }

  /** What the relay has not answered, in order. */
  get unanswered(): readonly Outgoing[] {
    return this.#unanswered
  }

  /** A new message. */
  add(record: OutboxRecord, sending: Sending | undefined): void {
    this.#unanswered.push({ record, state: 'new', error: undefined, sending })
    this.#bytes += record.ciphertext.length
    this.#changes.push({ type: 'putOutbox', id: this.#id, record })
  }

  /** Everything that was drained is on disk. */
  written(): void {
    for (const message of this.#unanswered) if (message.state === 'new') message.state = 'stored'
  }

  /** What is to be sent now; it counts as sent. */
  take(): readonly Outgoing[] {
    if (this.#stalled) return []
    const stored = this.#unanswered.filter(({ state }) => state === 'stored')
    for (const message of stored) message.state = 'sent'
    return stored
  }

  /** The relay has it, at this index. */
  answer(message: Outgoing, index: number): void {
    if (message.state === 'done') return
    const { messageId, counter, ciphertext, messageKey } = message.record
    const bodyHash = sha256(ciphertext)
    this.#settle(message)
    this.#answered.push({ messageId, counter, bodyHash })
    this.#changes.push({ type: 'answerOutbox', id: this.#id, messageId, bodyHash })
    messageKey.fill(0)
    message.sending?.resolve({ messageId: toHex(messageId), index })
  }

  /** The relay has refused it: for good when there is an error, otherwise until it is sent again. */
  refuse(message: Outgoing, error: StaticError | undefined): void {
    if (message.state === 'done') return
    message.state = error === undefined ? 'refused' : 'failed'
    message.error = error
    this.#stalled = true
  }

  /** All that are under way would be refused for the same reason. */
  refuseAll(error: StaticError): void {
    for (const message of this.#unanswered) if (message.state !== 'failed') this.refuse(message, error)
  }

  /** The session is over: what was sent may or may not have arrived, and goes out again. */
  lose(): void {
    for (const message of this.#unanswered) {
      // Also what was refused for good: encrypting the others anew while one of them may have arrived would fork.
      if (message.state !== 'new') message.state = 'stored'
      message.error = undefined
    }
    this.#stalled = false
  }

  /**
   * Goes on after a refusal. Those that failed are given up; the rest is sent again, by new records if `renew` gives
   * them.
   */
  recover(renew: ((message: Outgoing) => OutboxRecord) | undefined): void {
    for (const message of this.#unanswered.filter(({ state }) => state === 'failed')) {
      const { messageId, messageKey } = message.record
      this.#settle(message)
      messageKey.fill(0)
      this.#changes.push({ type: 'dropOutbox', id: this.#id, messageId })
      if (message.error) message.sending?.reject(message.error)
    }
    for (const message of this.#unanswered) {
      if (renew === undefined) {
        // What is not on disk yet is not sent yet.
        if (message.state !== 'new') message.state = 'stored'
        continue
      }
      message.state = 'new'
      const { messageKey } = message.record
      message.record = renew(message)
      messageKey.fill(0)
      this.#changes.push({ type: 'putOutbox', id: this.#id, record: message.record })
    }
    this.#stalled = false
  }

  /** An own entry passes in the log: the hash of its body; undefined when there is no such message. */
  pass(messageId: Uint8Array, index: number): Uint8Array | undefined {
    const message = this.#unanswered.find(({ record }) => same(record.messageId, messageId))
    if (message !== undefined) this.answer(message, index)
    const passed = this.#answered.find((answered) => same(answered.messageId, messageId))
    if (passed === undefined) return undefined
    // The entries come in order: those of earlier ones were lost in a gap.
    const gone = this.#answered.filter(({ counter }) => counter <= passed.counter)
    this.#answered = this.#answered.filter(({ counter }) => counter > passed.counter)
    for (const { messageId: id } of gone) this.#changes.push({ type: 'dropOutbox', id: this.#id, messageId: id })
    return passed.bodyHash
  }

  /** Nothing will be sent any more. */
  fail(error: StaticError): void {
    for (const { sending } of this.#unanswered) sending?.reject(error)
    this.#stalled = true
  }

  /** What has changed since the last time. */
  drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  #settle(message: Outgoing): void {
    message.state = 'done'
    this.#bytes -= message.record.ciphertext.length
    this.#unanswered = this.#unanswered.filter((other) => other !== message)
  }
}
