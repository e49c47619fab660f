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
  /** The relay has answered Resume for a channel. */
  resumed(id: ChannelId, state: ChannelState): void
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

  /** Asks the relay to deliver channels from this agent's cursor. */
  resume(ids: readonly ChannelId[]): void {
    const { session, timers } = this.#host
    session.request(resumeOf(ids.map(fromHex)), (outcome) => {
      if (outcome.type === 'refused') {
        timers.later(retryDelay(outcome.error.retryAfterMs), () => this.resume(ids))
      }
      if (outcome.type !== 'answered' || outcome.body.case !== 'resume') return
      const missing = new Set(ids)
      for (const state of outcome.body.value.channels) {
        const id = toHex(state.channelId)
        missing.delete(id)
        this.#host.resumed(id, state)
      }
      // An answer without them is none: they are asked for again.
      if (missing.size > 0) timers.later(retryDelay(undefined), () => this.resume([...missing]))
    })
  }

  /** A session is open: the relay is asked for these channels. */
  begin(ids: readonly ChannelId[]): void {
    // Also without a channel: it is what makes the relay deliver Welcomes.
    if (ids.length === 0) this.resume([])
    for (let at = 0; at < ids.length; at += RESUMED_AT_ONCE) this.resume(ids.slice(at, at + RESUMED_AT_ONCE))
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
