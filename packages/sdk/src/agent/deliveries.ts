/**
 * Controls the relay's deliveries for all channels of an agent: where they start, which entries are acknowledged, when
 * they pause.
 */
import { fromHex, message, toHex } from '@static/protocol'
import { type ChannelState, ReceiptDemand, ResumeRequestSchema } from '@static/protocol/relay'
import type { ChannelId, RelaySession, RequestBody } from '../ports/index.ts'
import { retryDelay } from '../ports/refusal.ts'
import type { Timers } from './timers.ts'

/** The bytes that may be queued for processing before the relay is asked to pause. */
const HOLD_BYTES = 2 * 1024 * 1024
const RESUMED_AT_ONCE = 500

/** A Resume request for one channel. */
export interface ResumeQuestion {
  readonly id: ChannelId
  /** Which receipts from other members the session gets. */
  readonly receipts: ReceiptDemand
  /** Whether the channel still needs this answer: it has neither asked again nor ended. */
  isOpen(): boolean
  /** Called with the relay's answer. */
  answer(state: ChannelState): void
}

/** The deliveries to one agent. */
export class Deliveries {
  readonly #session: Pick<RelaySession, 'request' | 'ack' | 'hold' | 'release'>
  readonly #timers: Timers
  #isOpen = false
  #acks: Parameters<RelaySession['ack']>[0][number][] = []
  #queuedBytes = 0
  #isHolding = false
  /** Cancels the next Resume without channels, if one is scheduled. */
  #cancel: (() => void) | undefined

  constructor(session: Pick<RelaySession, 'request' | 'ack' | 'hold' | 'release'>, timers: Timers) {
    this.#session = session
    this.#timers = timers
  }

  /** A session is open. */
  opened(): void {
    this.#isOpen = true
  }

  /** The session is lost. */
  lost(): void {
    this.#isOpen = false
  }

  /** Acknowledges entries that are on disk. All acknowledgements of a turn are sent together. */
  acknowledge(id: ChannelId, index: number, receipt?: Uint8Array): void {
    if (this.#acks.length === 0) queueMicrotask(() => this.#sendAcks())
    this.#acks.push({ channelId: fromHex(id), index: BigInt(index), ...(receipt && { receipt }) })
  }

  /** Asks the relay to deliver channels from this agent's cursor. Requests lost with the session get no answer. */
  resume(questions: readonly ResumeQuestion[]): void {
    const demands = new Set(questions.map(({ receipts }) => receipts))
    // Even without channels, because Resume makes the relay deliver Welcomes.
    if (demands.size === 0) this.#resume([], ReceiptDemand.UNSPECIFIED)
    for (const demand of demands) {
      const some = questions.filter(({ receipts }) => receipts === demand)
      for (let at = 0; at < some.length; at += RESUMED_AT_ONCE) {
        this.#resume(some.slice(at, at + RESUMED_AT_ONCE), demand)
      }
    }
  }

  #resume(questions: readonly ResumeQuestion[], demand: ReceiptDemand): void {
    const channelIds = questions.map(({ id }) => fromHex(id))
    this.#session.request(resumeOf(channelIds, demand), (outcome) => {
      if (outcome.type === 'refused') this.#resumeLater(questions, outcome.error.retryAfterMs)
      if (outcome.type !== 'answered' || outcome.body.case !== 'resume') return
      const states = new Map(outcome.body.value.channels.map((state) => [toHex(state.channelId), state]))
      for (const question of questions) {
        const state = states.get(question.id)
        if (state && question.isOpen()) question.answer(state)
      }
      // Channels missing from the answer are requested again.
      const missing = questions.filter(({ id }) => !states.has(id))
      if (missing.length > 0) this.#resumeLater(missing, undefined)
    })
  }

  /** Adds to the number of bytes queued for processing; negative when they are processed. */
  queued(bytes: number): void {
    this.#queuedBytes += bytes
    if (!this.#isHolding && this.#queuedBytes > HOLD_BYTES) {
      this.#isHolding = true
      this.#session.hold()
    } else if (this.#isHolding && this.#queuedBytes < HOLD_BYTES / 2) {
      this.#isHolding = false
      this.#session.release()
    }
  }

  /** Retries for the channels that still need the answer by then, or for Welcomes if no channel was requested. */
  #resumeLater(questions: readonly ResumeQuestion[], retryAfterMs: number | undefined): void {
    const cancel = this.#timers.later(retryDelay(retryAfterMs), () => {
      const open = questions.filter((question) => question.isOpen())
      if (open.length > 0 || questions.length === 0) this.resume(open)
    })
    if (questions.length > 0) return
    // Every session asks for Welcomes: a refused request replaces earlier ones.
    this.#cancel?.()
    this.#cancel = cancel
  }

  #sendAcks(): void {
    const acks = this.#acks
    this.#acks = []
    if (this.#isOpen) this.#session.ack(acks)
  }
}

/** The request that starts deliveries for channels. */
export function resumeOf(
  channelIds: Uint8Array[],
  receipts: ReceiptDemand = ReceiptDemand.UNSPECIFIED,
): Extract<RequestBody, { readonly case: 'resume' }> {
  return { case: 'resume', value: message(ResumeRequestSchema, { channelIds, after: new Uint8Array(), receipts }) }
}
