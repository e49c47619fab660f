/** What the relay is told about deliveries, for all channels of an agent: where to begin, how far it got, when to pause. */
import { fromHex, message, toHex } from '@static/protocol'
import { type AckPosition, type ChannelState, ResumeRequestSchema } from '@static/protocol/relay'
import type { ChannelId, RelaySession, RequestBody } from '../../ports.ts'
import { retryDelay } from '../../session/refusal.ts'
import type { Timers } from './timers.ts'

/** What may wait to be processed before the relay is asked to pause. */
const HOLD_BYTES = 2 * 1024 * 1024
const RESUMED_AT_ONCE = 500

/** What deliveries ask of their agent. */
export interface DeliveriesHost {
  readonly session: RelaySession
  /** Whether a session is open. */
  readonly isOpen: boolean
  readonly timers: Timers
}

/** A channel that the relay is asked to deliver. */
export interface ResumeQuestion {
  readonly id: ChannelId
  /** Whether the channel still waits for this answer: it has not asked again, and has not ended. */
  isOpen(): boolean
  /** The relay's answer. */
  answer(state: ChannelState): void
}

/** The deliveries to one agent. */
export class Deliveries {
  readonly #host: DeliveriesHost
  #acks: Pick<AckPosition, 'channelId' | 'index'>[] = []
  #queuedBytes = 0
  #isHolding = false

  constructor(host: DeliveriesHost) {
    this.#host = host
  }

  /** Tells the relay what is on disk; all acknowledgements of a turn go out together. */
  acknowledge(id: ChannelId, index: number): void {
    if (this.#acks.length === 0) queueMicrotask(() => this.#sendAcks())
    this.#acks.push({ channelId: fromHex(id), index: BigInt(index) })
  }

  /** Asks the relay to deliver channels from this agent's cursor. Nobody hears of a question that the session lost. */
  resume(questions: readonly ResumeQuestion[]): void {
    const { session } = this.#host
    session.request(resumeOf(questions.map(({ id }) => fromHex(id))), (outcome) => {
      if (outcome.type === 'refused') this.#resumeLater(questions, outcome.error.retryAfterMs)
      if (outcome.type !== 'answered' || outcome.body.case !== 'resume') return
      const states = new Map(outcome.body.value.channels.map((state) => [toHex(state.channelId), state]))
      for (const question of questions) {
        const state = states.get(question.id)
        if (state && question.isOpen()) question.answer(state)
      }
      // An answer without them is none: they are asked for again.
      const missing = questions.filter(({ id }) => !states.has(id))
      if (missing.length > 0) this.#resumeLater(missing, undefined)
    })
  }

  /** A session is open: the relay is asked for these channels. */
  begin(questions: readonly ResumeQuestion[]): void {
    // Also without a channel: it is what makes the relay deliver Welcomes.
    if (questions.length === 0) this.resume([])
    for (let at = 0; at < questions.length; at += RESUMED_AT_ONCE) {
      this.resume(questions.slice(at, at + RESUMED_AT_ONCE))
    }
  }

  /** So many bytes wait to be processed, more or less than before. */
  queued(bytes: number): void {
    this.#queuedBytes += bytes
    if (!this.#isHolding && this.#queuedBytes > HOLD_BYTES) {
      this.#isHolding = true
      this.#host.session.hold()
    } else if (this.#isHolding && this.#queuedBytes < HOLD_BYTES / 2) {
      this.#isHolding = false
      this.#host.session.release()
    }
  }

  /** Asks again, for the channels that still wait for this answer by then; for Welcomes, if it was asked for none. */
  #resumeLater(questions: readonly ResumeQuestion[], retryAfterMs: number | undefined): void {
    this.#host.timers.later(retryDelay(retryAfterMs), () => {
      const open = questions.filter((question) => question.isOpen())
      if (open.length > 0 || questions.length === 0) this.resume(open)
    })
  }

  #sendAcks(): void {
    const acks = this.#acks
    this.#acks = []
    if (this.#host.isOpen) this.#host.session.ack(acks)
  }
}

/** The request that starts the deliveries of channels. */
export function resumeOf(channelIds: Uint8Array[]): Extract<RequestBody, { readonly case: 'resume' }> {
  return { case: 'resume', value: message(ResumeRequestSchema, { channelIds, after: new Uint8Array() }) }
}
