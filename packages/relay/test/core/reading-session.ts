/** A session that has resumed and reads what the deliveries of a node give it. */
import { Delivery } from '../../src/core/delivery.ts'
import { Effects } from '../../src/core/effects.ts'
import type { Session } from '../../src/core/sessions/stream.ts'
import type { AgentId } from '../../src/ports.ts'

/** Enters a session without channels. */
export function readingSession(agent: AgentId): {
  readonly effects: Effects
  readonly delivery: Delivery
  readonly session: Session
} {
  const effects = new Effects()
  const delivery = new Delivery(effects)
  const session = {
    agent,
    stream: { id: 1, congested: false },
    subscriptions: new Map(),
    stays: new Map(),
    behind: new Set(),
    reading: false,
    resumed: true,
    acknowledged: new Map(),
    unstored: 0,
    welcomes: { waiting: false, more: false, after: 0, yields: false, before: new Set() },
  } as unknown as Session
  delivery.enter(session)
  return { effects, delivery, session }
}
