/**
 * Who was a member of a channel from which entry to which, as this agent's log says, and the last receipt of each that
 * was verified; at the owner's agent also whether it vouches for them. Pure: it decides nothing and only records. Members that were there before this agent have been since 0.
 */
import { RECEIPT_MODES, type ReceiptClaim } from '@static/protocol'
import type { AgentId, Change, ChannelId, StayRecord, Time } from '../../ports/index.ts'

/** Stays that have ended are remembered as long as there are not this many later ones. */
const MOST_ENDED = 250

/** What a receipt says, without what it was compared with. */
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

  /** A receipt of a member was verified. */
  confirm(agent: AgentId, claim: ReceiptClaim, heardAt: Time): StayRecord {
    const before = this.of(agent)
    const { mode, since, index } = claim
    // What a member has settled stays so when it tells no more of it.
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
 * Whether a receipt says more than the last one of the same stay. Nothing in it goes back. A mode alone is no time: of two
 * receipts that differ in nothing else, the one that tells more counts, whichever the relay gives last.
 */
export function isNewer(claim: ReceiptClaim, known: StayReceipt | undefined): boolean {
  if (!known) return true
  const { since, index } = claim
  const { aside, settled } = settling(claim, known)
  if (since < known.since || index < known.index || aside < known.aside || settled < known.settled) return false
  const says = since > known.since || index > known.index || aside > known.aside || settled > known.settled
  return says || RECEIPT_MODES.indexOf(claim.mode) > RECEIPT_MODES.indexOf(known.mode)
}

/** What was settled and put aside by a receipt, or by an earlier one if this does not tell. */
function settling(claim: ReceiptClaim, known: StayReceipt | undefined): Pick<ReceiptClaim, 'aside' | 'settled'> {
  return claim.mode === 'settled' ? claim : (known ?? claim)
}

function newStay(agent: AgentId, addedAt: number): StayRecord {
  return { agent, addedAt, ending: undefined, endedAt: 0, vouched: false, receipt: undefined }
}

function keyOf(agent: AgentId, addedAt: number): string {
  return `${agent} ${addedAt}`
}
