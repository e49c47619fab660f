/**
 * How far a message may move the ratchet of its sender (SPEC.md, 4.2). Each step is hashed before anything of the message
 * is authenticated, so whoever sends what does not open would let all others hash for it.
 */
import type { AgentId } from '../../ports.ts'

/** How many generations a sender may use up without the others hearing of them. See MOST_BURNT in sender.ts. */
const SLACK = 1024
/** More than a sender uses before it replaces its keys: whatever the relay says about counters and indexes. */
const MOST_STEPS = 32_768
/** After so many messages in a row that do not open, a sender may move its ratchet only so far. */
const MOST_FAILURES = 8
const STEPS_AFTER_FAILURES = 16

/** The senders of one epoch. */
export class SenderTrust {
  /** Failures in a row. */
  readonly #failures = new Map<AgentId, number>()
  /** How much of the slack of this epoch a sender has used up. */
  readonly #used = new Map<AgentId, number>()

  /** How many steps are allowed for a message of a sender that can have sent so many since the last one that opened. */
  steps(sender: AgentId, spoken: number): number {
    if ((this.#failures.get(sender) ?? 0) >= MOST_FAILURES) return STEPS_AFTER_FAILURES
    return Math.min(Math.max(0, spoken) + SLACK - (this.#used.get(sender) ?? 0), MOST_STEPS)
  }

  /** A message of it has opened, and moved its ratchet so far. */
  opened(sender: AgentId, spoken: number, steps: number): void {
    this.#failures.delete(sender)
    const more = steps - Math.max(0, spoken)
    if (more > 0) this.#used.set(sender, (this.#used.get(sender) ?? 0) + more)
  }

  failed(sender: AgentId): void {
    this.#failures.set(sender, (this.#failures.get(sender) ?? 0) + 1)
  }

  /** Whether the last failure was the first that limits this sender. */
  isLostNow(sender: AgentId): boolean {
    return this.#failures.get(sender) === MOST_FAILURES
  }
}
