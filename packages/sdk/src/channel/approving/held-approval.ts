/** One approval as this agent holds it: its request, and what has happened to it. */
import { toHex } from '@static/protocol'
import type { AgentId, ApprovalEventRecord, ApprovalRecord, Time } from '../../ports/index.ts'
import { type ApprovalEvent, type Outcome, outcomeOf } from '../../approvals/outcome.ts'
import { type ApprovalRequest, decodeApproval } from '../../approvals/request.ts'

/** A final outcome. */
export type FinalState = Exclude<Outcome['state'], 'pending'>

export class HeldApproval {
  /** SHA-256 of the request, hexadecimal. */
  readonly id: string
  readonly request: ApprovalRequest
  readonly bytes: Uint8Array
  record: ApprovalRecord
  readonly events: ApprovalEventRecord[] = []
  /** A decision, or the use of the permission, is on its way to the disk. */
  isBusy = false
  /** Of this agent's own: resolves once the outcome is on disk. */
  readonly over: PromiseWithResolvers<void> = Promise.withResolvers<void>()
  /** Stops the timer of the deadline. */
  stop: () => void = () => {}

  private constructor(record: ApprovalRecord, request: ApprovalRequest, bytes: Uint8Array) {
    this.id = toHex(record.hash)
    this.record = record
    this.request = request
    this.bytes = bytes
    // It may end while no one waits.
    this.over.promise.catch(() => {})
    if (record.outcome !== undefined) this.over.resolve()
  }

  /** Undefined if the bytes are not a request. */
  static of(record: ApprovalRecord, bytes: Uint8Array): HeldApproval | undefined {
    const request = decodeApproval(bytes)
    return request && new HeldApproval(record, request, bytes)
  }

  hasDecided(agent: AgentId): boolean {
    return this.events.some((event) => event.agent === agent && event.what !== 'removed')
  }

  hasLost(agent: AgentId): boolean {
    return this.events.some((event) => event.agent === agent && event.what === 'removed')
  }

  /** The decisions without those of members that were removed before the outcome: a record has no removals. */
  lasting(now: Time): readonly ApprovalEventRecord[] {
    const { gone } = this.outcome(now)
    return this.events.filter(({ agent, what }) => what !== 'removed' && !gone.includes(agent))
  }

  /** What has become of it, or would if it were this agent's own. */
  outcome(now: Time): Outcome {
    const events = this.events.map(({ agent, what, at }) => ({ agent, what: what as ApprovalEvent['what'], at }))
    const found = outcomeOf(this.request, events, now)
    const { outcome } = this.record
    return outcome === undefined ? found : { ...found, state: outcome as FinalState }
  }
}
