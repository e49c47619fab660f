/**
 * From which entry to which each agent was a member of the channel, according to this agent's log, with the last
 * verified receipt of each; in the owner's agent, also whether it vouches for them. Pure: it decides nothing and only
 * records. For members that were there before this agent, a stay starts at 0.
 */
import { RECEIPT_MODES, type ReceiptClaim } from '@static/protocol'
import type { AgentId, Change, ChannelId, StayRecord, Time } from '../../ports/index.ts'

/** An ended stay is kept until this many later ones have ended. */
const MOST_ENDED = 250

/** The content of a receipt, without the fields it was compared with. */
export type StayReceipt = NonNullable<StayRecord['receipt']>

/** The stays of one channel. */
export class Stays {
  readonly #id: ChannelId
  readonly #current = new Map<AgentId, StayRecord>()
  /** In the order in which they ended. */
  #ended: StayRecord[] = []
  readonly #changed = new Map<string, StayRecord>()
  #changes: Change[] = []

  constructor(id: ChannelId, stored: readonly StayRecord[]) {
    this.#id = id
    for (const stay of stored) if (stay.ending === undefined) this.#current.set(stay.agent, stay)
    this.#ended = stored.filter(({ ending }) => ending !== undefined).toSorted((a, b) => a.endedAt - b.endedAt)
  }

  /** The current stay of a member. */
  of(agent: AgentId): StayRecord {
    return this.#current.get(agent) ?? newStay(agent, 0)
  }

  /** The stays of these members, and of former ones, that include an entry. */
  at(index: number, members: Iterable<AgentId>): readonly StayRecord[] {
    const current = [...members].map((agent) => this.of(agent)).filter(({ addedAt }) => addedAt < index)
    const ended = this.#ended.filter(({ addedAt, endedAt }) => addedAt < index && index < endedAt)
    return [...current, ...ended]
  }

  /** An entry added a member. */
  begin(agent: AgentId, index: number, vouched: boolean): void {
    this.#put({ ...newStay(agent, index), vouched })
  }

  /** This agent, as the owner, vouches for a member. */
  vouch(agent: AgentId): void {
    this.#put({ ...this.of(agent), vouched: true })
  }

  /** An entry ended a stay. */
  end(agent: AgentId, index: number, ending: 'left' | 'removed'): void {
    const stay = { ...this.of(agent), ending, endedAt: index }
    this.#current.delete(agent)
    this.#ended.push(stay)
    this.#write(stay)
    for (const { agent: of, addedAt } of this.#ended.splice(0, this.#ended.length - MOST_ENDED)) {
      this.#changed.delete(keyOf(of, addedAt))
      this.#changes.push({ type: 'dropStay', id: this.#id, agent: of, addedAt })
    }
  }

  /** A member's receipt was verified. */
  confirm(agent: AgentId, claim: ReceiptClaim, heardAt: Time): StayRecord {
    const before = this.of(agent)
    const { mode, since, index } = claim
    // A member's settled messages stay settled if it stops reporting them.
    const { aside, settled } = settling(claim, before.receipt)
    const stay = { ...before, receipt: { mode, since, index, aside, settled, heardAt } }
    this.#put(stay)
    return stay
  }

  /** Returns the changes since the last call. */
  drain(): readonly Change[] {
    const puts = [...this.#changed.values()].map((stay): Change => ({ type: 'putStay', id: this.#id, stay }))
    const changes = [...this.#changes, ...puts]
    this.#changes = []
    this.#changed.clear()
    return changes
  }

  #put(stay: StayRecord): void {
    this.#current.set(stay.agent, stay)
    this.#write(stay)
  }

  #write(stay: StayRecord): void {
    this.#changed.set(keyOf(stay.agent, stay.addedAt), stay)
  }
}

/**
 * Whether a receipt says more than the last one of the same stay. None of its values may go back. A mode has no order
 * in time: of two receipts that differ only in mode, the one that reports more counts, whichever the relay delivers
 * last.
 */
export function isNewer(claim: ReceiptClaim, known: StayReceipt | undefined): boolean {
  if (!known) return true
  const { since, index } = claim
  const { aside, settled } = settling(claim, known)
  if (since < known.since || index < known.index || aside < known.aside || settled < known.settled) return false
  const says = since > known.since || index > known.index || aside > known.aside || settled > known.settled
  return says || RECEIPT_MODES.indexOf(claim.mode) > RECEIPT_MODES.indexOf(known.mode)
}

/** The settled and aside positions of a receipt, or of an earlier one if this one does not report them. */
function settling(claim: ReceiptClaim, known: StayReceipt | undefined): Pick<ReceiptClaim, 'aside' | 'settled'> {
  return claim.mode === 'settled' ? claim : (known ?? claim)
}

function newStay(agent: AgentId, addedAt: number): StayRecord {
  return { agent, addedAt, ending: undefined, endedAt: 0, vouched: false, receipt: undefined }
}

function keyOf(agent: AgentId, addedAt: number): string {
  return `${agent} ${addedAt}`
}
