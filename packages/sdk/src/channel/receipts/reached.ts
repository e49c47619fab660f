/** Which members have a message, according to their receipts, and the callers waiting for that. */
import type { StaticError } from '@static/protocol'
import type { AgentId, StayRecord } from '../../ports/index.ts'

/** The state to wait for: a member has received a message, or its application has settled it. */
export type ReceiptLevel = 'delivered' | 'settled'

/**
 * Why a member is not waited for: it left or was removed, missed the message, put it or a later one aside, has receipts
 * (of this level) off, or was not a member when the message was sent.
 */
export type UnreachedReason = 'left' | 'removed' | 'missed' | 'aside' | 'off' | 'not_member'

/** The members that have a message, and those not waited for. */
export interface Judgement {
  readonly reached: ReadonlySet<AgentId>
  readonly unreached: ReadonlyMap<AgentId, UnreachedReason>
}

/** A message, and the level and members to wait for. */
export interface IndexQuestion {
  readonly index: number
  readonly level: ReceiptLevel
  /** Undefined: everyone who was a member. */
  readonly by: readonly AgentId[] | undefined
}

/** The facts that decide about a message. */
export interface Evidence {
  /** The stays that include an entry, except this agent's. */
  stays(index: number): readonly StayRecord[]
  /** Whether a member that is still in the group has signed that it leaves. */
  isLeaving(agent: AgentId): boolean
}

/** The verdict of a member's stay on a message: reached, why it is not waited for, or nothing yet. */
export function verdict(
  { receipt, ending }: Pick<StayRecord, 'receipt' | 'ending'>,
  { index, level }: Pick<IndexQuestion, 'index' | 'level'>,
): 'reached' | UnreachedReason | undefined {
  if (receipt && receipt.since >= index) return 'missed'
  if (receipt) {
    // Messages settled before receipts were switched off had been delivered.
    const delivered = receipt.mode === 'off' ? Math.max(receipt.aside, receipt.settled) : receipt.index
    if (level === 'delivered' && index <= delivered) return 'reached'
    if (level === 'settled' && index <= receipt.aside) return 'aside'
    if (level === 'settled' && index <= receipt.settled) return 'reached'
  }
  if (ending) return ending
  if (receipt?.mode === 'off' || (receipt?.mode === 'delivered' && level === 'settled')) return 'off'
  return undefined
}

/** Makes the error of a wait that ends early. */
type ErrorForMissing = (missing: readonly AgentId[]) => StaticError

interface Waiting extends PromiseWithResolvers<Judgement> {
  readonly question: IndexQuestion
  /** Proven once counts, whatever a member reports later. */
  readonly reached: Set<AgentId>
  /** The members still waited for. */
  missing: readonly AgentId[]
}

/** The callers of one channel. */
export class ReachedWaits {
  readonly #evidence: Evidence
  readonly #waiting = new Set<Waiting>()

  constructor(evidence: Evidence) {
    this.#evidence = evidence
  }

  /**
   * Resolves once no one is left to wait for. `cancel` receives a function that ends the wait with the error made from
   * the members still waited for.
   */
  async wait(question: IndexQuestion, cancel: (end: (errorFor: ErrorForMissing) => void) => void): Promise<Judgement> {
    const waiting: Waiting = { ...Promise.withResolvers<Judgement>(), question, reached: new Set(), missing: [] }
    this.#waiting.add(waiting)
    cancel((errorFor) => waiting.reject(errorFor(waiting.missing)))
    this.#judge(waiting)
    try {
      return await waiting.promise
    } finally {
      this.#waiting.delete(waiting)
    }
  }

  /** Something has changed that may decide a wait. */
  changed(): void {
    for (const waiting of this.#waiting) this.#judge(waiting)
  }

  /** No more receipts will arrive. */
  fail(error: StaticError): void {
    for (const { reject } of this.#waiting) reject(error)
  }

  #judge(waiting: Waiting): void {
    const { question, reached, resolve } = waiting
    const { index, by } = question
    const stays = new Map<AgentId, StayRecord[]>()
    for (const stay of this.#evidence.stays(index)) stays.set(stay.agent, [...(stays.get(stay.agent) ?? []), stay])
    const unreached = new Map<AgentId, UnreachedReason>()
    const missing: AgentId[] = []
    for (const agent of by ?? stays.keys()) {
      if (reached.has(agent)) continue
      // An agent that came back has two stays, but an entry is in only one of them.
      const [stay] = stays.get(agent) ?? []
      const found = stay ? (verdict(stay, question) ?? this.#leaving(agent)) : 'not_member'
      if (found === 'reached') reached.add(agent)
      else if (found) unreached.set(agent, found)
      else missing.push(agent)
    }
    waiting.missing = missing
    if (missing.length === 0) resolve({ reached, unreached })
  }

  #leaving(agent: AgentId): UnreachedReason | undefined {
    return this.#evidence.isLeaving(agent) ? 'left' : undefined
  }
}
