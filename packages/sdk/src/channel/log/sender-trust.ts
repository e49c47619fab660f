/**
 * How far a message may move its sender's ratchet (SPEC.md, 4.2). Each step is hashed before any part of the message is
 * authenticated, so undecryptable messages could make all other members hash in vain.
 */
import type { AgentId } from '../../ports/index.ts'

/** How many generations a sender may use up on messages that others never receive. See MOST_BURNT in sender.ts. */
const SLACK = 1024
/**
 * More than a sender uses before it replaces its keys. Applies regardless of the counters and indexes that the relay
 * reports.
 */
const MOST_STEPS = 32_768
/** After MOST_FAILURES undecryptable messages in a row, a sender may move its ratchet by only STEPS_AFTER_FAILURES. */
const MOST_FAILURES = 8
const STEPS_AFTER_FAILURES = 16

/** The senders of one epoch. */
export class SenderTrust {
  /** Failures in a row. */
  readonly #failures = new Map<AgentId, number>()
  /** How much of this epoch's slack each sender has used. */
  readonly #used = new Map<AgentId, number>()

  /** The steps allowed for a sender's message; `sent` is how many it can have sent since the last decrypted one. */
  steps(sender: AgentId, sent: number): number {
    if ((this.#failures.get(sender) ?? 0) >= MOST_FAILURES) return STEPS_AFTER_FAILURES
    return Math.min(Math.max(0, sent) + SLACK - (this.#used.get(sender) ?? 0), MOST_STEPS)
  }

  /** Records a decrypted message that moved the sender's ratchet by `steps`. */
  opened(sender: AgentId, sent: number, steps: number): void {
    this.#failures.delete(sender)
    const more = steps - Math.max(0, sent)
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
