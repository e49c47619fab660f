/**
 * How fast this agent sends in a channel that is filling up: the relay's answers say how long to wait between two
 * messages and which members lag, so that those who read slowly lose nothing. Other channels are not slowed.
 */
import { toHex } from '@static/protocol'
import type { Laggard } from '@static/protocol/relay'
import type { AgentContext } from '../agent/context.ts'
import type { ChannelView } from './host.ts'

/** The longest wait between two messages, whatever the relay says. */
const MOST_MS = 1000
/** The application hears of lagging members so often at most. */
const TELL_MS = 60_000
const MOST_NAMED = 8

/** The pace of one channel. */
export class Pace {
  readonly #context: Pick<AgentContext, 'now' | 'later' | 'emit'>
  readonly #channel: ChannelView
  readonly #wake: () => void
  #waitMs = 0
  /** A message has gone, and the wait after it is not over. */
  #cancel: (() => void) | undefined
  #told: number | undefined

  constructor(context: Pick<AgentContext, 'now' | 'later' | 'emit'>, channel: ChannelView, wake: () => void) {
    this.#context = context
    this.#channel = channel
    this.#wake = wake
  }

  /** What the relay has said with its last answer; without a wait there is room. */
  heed(waitMs: number | undefined, lagging: readonly Laggard[]): void {
    this.#waitMs = Math.min(waitMs ?? 0, MOST_MS)
    if (this.#waitMs === 0) this.end()
    if (lagging.length > 0) this.#tell(lagging)
  }

  /** Whether a message may go now; then the next one waits. */
  take(): boolean {
    if (this.#cancel) return false
    if (this.#waitMs > 0) {
      this.#cancel = this.#context.later(this.#waitMs, () => {
        this.#cancel = undefined
        this.#wake()
      })
    }
    return true
  }

  /** Nothing waits any more. */
  end(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #tell(lagging: readonly Laggard[]): void {
    const now = this.#context.now()
    // A clock that was set back must not silence it.
    if (this.#told !== undefined && Math.abs(now - this.#told) < TELL_MS) return
    const { name, group } = this.#channel
    const members = lagging
      .slice(0, MOST_NAMED)
      .map(({ agentId, waiting }) => ({ agent: toHex(agentId), waiting: Number(waiting) }))
      .filter(({ agent }) => group?.members.has(agent))
    if (members.length === 0) return
    this.#told = now
    this.#context.emit({ type: 'lagging', channel: name, members })
  }
}
