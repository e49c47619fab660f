/**
 * What becomes of a request: a pure rule over what an agent has processed, in order. Only `approved` is permission.
 *
 * An agent's first decision is final, and so is the outcome. A member that was removed before the outcome does not
 * count, even if it is added again.
 */
import type { AgentId, Time } from '../ports/index.ts'
import type { Choice } from './decision.ts'
import type { ApprovalRequest } from './request.ts'

/** A decision, or the removal of a member, when it was processed. */
export interface ApprovalEvent {
  readonly agent: AgentId
  readonly what: Choice | 'removed'
  readonly at: Time
}

export interface Outcome {
  readonly state: 'pending' | 'approved' | 'denied' | 'expired'
  /** Those that approved, if it is pending or approved; otherwise those that denied. In the order of their decisions. */
  readonly by: readonly AgentId[]
  /** Those that were removed before the outcome: their decisions do not count. */
  readonly gone: readonly AgentId[]
}

/** The outcome of a request after these events, at a time. */
export function outcomeOf(
  { from, need, deadline }: Pick<ApprovalRequest, 'from' | 'need' | 'deadline'>,
  events: readonly ApprovalEvent[],
  now: Time,
): Outcome {
  const approved = new Set<AgentId>()
  const denied = new Set<AgentId>()
  const gone = new Set<AgentId>()
  for (const { agent, what, at } of events) {
    if (at >= deadline) break
    if (!from.includes(agent) || gone.has(agent)) continue
    if (what === 'removed') {
      approved.delete(agent)
      denied.delete(agent)
      gone.add(agent)
    } else if (!approved.has(agent) && !denied.has(agent)) {
      const decided = what === 'approve' ? approved : denied
      decided.add(agent)
    }
    if (approved.size >= need) return { state: 'approved', by: [...approved], gone: [...gone] }
    if (from.length - denied.size - gone.size < need) return { state: 'denied', by: [...denied], gone: [...gone] }
  }
  if (now >= deadline) return { state: 'expired', by: [...denied], gone: [...gone] }
  return { state: 'pending', by: [...approved], gone: [...gone] }
}
