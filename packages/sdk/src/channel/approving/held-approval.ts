/** One approval as this agent holds it: its request, and what has happened to it. */
import { StaticError, toHex } from '@static/protocol'
import type { AgentId, ApprovalEventRecord, ApprovalRecord, ApprovalRequestRecord, Time } from '../../ports/index.ts'
import { type ApprovalEvent, type Outcome, outcomeOf } from '../../approvals/outcome.ts'
import { type ApprovalRequest, decodeApproval } from '../../approvals/request.ts'

/** An outcome that does not change any more. */
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

  constructor(record: ApprovalRecord, { request: bytes }: Pick<ApprovalRequestRecord, 'request'>) {
    const request = decodeApproval(bytes)
    if (!request) throw StaticError.of('store_corrupt', 'The request of an approval is malformed.')
    this.id = toHex(record.hash)
    this.record = record
    this.request = request
    this.bytes = bytes
    // It may end while no one waits.
    this.over.promise.catch(() => {})
    if (record.outcome !== undefined) this.over.resolve()
  }

  hasDecided(agent: AgentId): boolean {
    return this.events.some((event) => event.agent === agent && event.what !== 'removed')
  }

  hasLost(agent: AgentId): boolean {
    return this.events.some((event) => event.agent === agent && event.what === 'removed')
  }

  /** What has become of it, or would if it were this agent's own. */
  outcome(now: Time): Outcome {
    const events = this.events.map(({ agent, what, at }) => ({ agent, what: what as ApprovalEvent['what'], at }))
    const found = outcomeOf(this.request, events, now)
    const { outcome } = this.record
    return outcome === undefined ? found : { state: outcome as FinalState, by: found.by }
  }
}
