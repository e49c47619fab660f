/**
 * Backpressure in a channel that is filling up: the relay's answers state how long to wait between two messages and
 * which members lag behind, so that slow readers lose nothing. Other channels are not slowed down.
 */
import { toHex } from '@static/protocol'
import type { Laggard } from '@static/protocol/relay'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'

/** The longest wait between two messages, whatever the relay says. */
const MOST_MS = 1000
/** The minimum time between two `lagging` events. */
const REPORT_MS = 60_000
const MOST_NAMED = 8

/** The pace of one channel. */
export class Pace {
  readonly #context: Pick<AgentContext, 'now' | 'later' | 'emit'>
  readonly #channel: AgentChannel
  #waitMs = 0
  /** Set during the wait after a message. */
  #cancel: (() => void) | undefined
  #reportedAt: number | undefined

  constructor(context: Pick<AgentContext, 'now' | 'later' | 'emit'>, channel: AgentChannel) {
    this.#context = context
    this.#channel = channel
  }

  /** Applies the relay's last answer. No wait means there is room. */
  heed(waitMs: number | undefined, lagging: readonly Laggard[]): void {
    this.#waitMs = Math.min(waitMs ?? 0, MOST_MS)
    if (this.#waitMs === 0) this.end()
    if (lagging.length > 0) this.#report(lagging)
  }

  /** Whether a message may be sent now. If so, the next one has to wait. */
  allow(): boolean {
    if (this.#cancel) return false
    if (this.#waitMs > 0) {
      this.#cancel = this.#context.later(this.#waitMs, () => {
        this.#cancel = undefined
        this.#channel.turn.work()
      })
    }
    return true
  }

  /** Ends the wait. */
  end(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #report(lagging: readonly Laggard[]): void {
    const now = this.#context.now()
    // The absolute difference, so that a clock that was set back does not suppress the event.
    if (this.#reportedAt !== undefined && Math.abs(now - this.#reportedAt) < REPORT_MS) return
    const { name, group } = this.#channel
    const members = lagging
      .slice(0, MOST_NAMED)
      .map(({ agentId, waiting }) => ({ agent: toHex(agentId), waiting: Number(waiting) }))
      .filter(({ agent }) => group?.members.has(agent))
    if (members.length === 0) return
    this.#reportedAt = now
    this.#context.emit({ type: 'lagging', channel: name, members })
  }
}
