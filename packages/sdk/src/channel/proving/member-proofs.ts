/**
 * What the members of a channel have shown of who runs them, and what became of it: kept on disk, so that verdicts
 * survive a restart and nothing is checked for a message. A proof is on disk before the entry that showed it is
 * acknowledged, and is checked after that, so a crash in between loses none.
 */
import { fromHex } from '@static/protocol'
import type { ProofDesk } from '../../proofs/desk.ts'
import { shownClaim } from '../../proofs/names.ts'
import { concat, same, viewOf } from '../../platform/bytes.ts'
import type { AgentId, Change, ChannelId, MemberProofRecord, Time } from '../../ports/index.ts'
import type { ProofContext } from '../../proofs/proof.ts'
import type { CheckedProof, Verdict } from '../../proofs/verdict.ts'

const OWNER_BYTES = 32
const PLACE_BYTES = 8

/** A proof, and where in the channel it was shown. */
export interface Pending extends Pick<ProofContext, 'ownerId'> {
  readonly place: number
  readonly proof: Uint8Array
}

function bytesOf({ ownerId, place, proof }: Pending): Uint8Array {
  const at = new Uint8Array(PLACE_BYTES)
  viewOf(at).setBigUint64(0, BigInt(place))
  return concat(ownerId, at, proof)
}

/** A member's proof in memory. */
interface Known {
  readonly record: MemberProofRecord
  /** The last verdict as it was reached. */
  readonly verdict: Verdict | undefined
  /** What it is worth now, as far as roots and keys are concerned. */
  readonly standing: Verdict | undefined
}

/** The proofs of one channel's members. */
export class MemberProofs {
  readonly #id: ChannelId
  readonly #desk: Pick<ProofDesk, 'standing'> | undefined
  readonly #known = new Map<AgentId, Known>()
  readonly #changed = new Set<AgentId>()

  constructor(id: ChannelId, desk: Pick<ProofDesk, 'standing'> | undefined, stored: readonly MemberProofRecord[]) {
    this.#id = id
    this.#desk = desk
    for (const record of stored) {
      const verdict = record.verdict === undefined ? undefined : (JSON.parse(record.verdict) as Verdict)
      this.#known.set(record.agent, { record, verdict, standing: this.#worth(verdict) })
    }
  }

  get agents(): readonly AgentId[] {
    return [...this.#known.keys()]
  }

  /** What a member's last proof is worth; undefined if it has shown none. */
  of(agent: AgentId, now: Time): Verdict | undefined {
    const { standing, record } = this.#known.get(agent) ?? {}
    if (standing === undefined) return record?.pending && { state: 'unchecked', reason: 'it is being checked' }
    if (standing.state !== 'checked' || standing.until > now) return standing
    const { kind, name, subject, facts } = standing
    const signed = { kind, name, subject, facts }
    return { state: 'lapsed', reason: 'it was not renewed in time', claimed: shownClaim(name), signed }
  }

  /** The last proof of a member that was valid when it was checked, whatever it is worth now. */
  lastChecked(agent: AgentId): CheckedProof | undefined {
    const verdict = this.#known.get(agent)?.verdict
    return verdict?.state === 'checked' ? verdict : undefined
  }

  /** The proof of a member that is to be checked. */
  pending(agent: AgentId): Pending | undefined {
    const bytes = this.#known.get(agent)?.record.pending
    if (!bytes) return undefined
    const place = Number(viewOf(bytes).getBigUint64(OWNER_BYTES))
    return { ownerId: bytes.slice(0, OWNER_BYTES), place, proof: bytes.slice(OWNER_BYTES + PLACE_BYTES) }
  }

  /** Since when the key of what a member shows is unknown: see `OtherProof`. */
  unknownSince(agent: AgentId): number | undefined {
    const verdict = this.#known.get(agent)?.verdict
    return verdict?.state === 'checked' ? undefined : verdict?.unknownSince
  }

  /** A member has shown a proof. The verdict on the last one stays until this one is checked. */
  shown(agent: AgentId, owner: AgentId, place: number, proof: Uint8Array): void {
    this.#put(agent, { pending: bytesOf({ ownerId: fromHex(owner), place, proof }) })
  }

  /**
   * A proof was checked: `judged` if it came in a join request. Without keys or in time, it may be checked again; that
   * does not undo one that still holds.
   */
  judged(agent: AgentId, verdict: Verdict, now: Time, judged?: Pending): void {
    const isDecided = verdict.state === 'checked' || verdict.state === 'invalid'
    const last = this.#known.get(agent)?.record.pending
    // The member has shown another one since, which is checked after this one.
    const isLast = judged === undefined || (last !== undefined && same(bytesOf(judged), last))
    const pending = verdict.state === 'unchecked' || !isLast ? last : undefined
    if (!isDecided && this.of(agent, now)?.state === 'checked') return this.#put(agent, { pending })
    // Showing one made-up key after the other gains no time, nor does a token that has ended in between.
    const unknownSince = this.unknownSince(agent)
    const kept = verdict.state === 'checked' || unknownSince === undefined ? verdict : { unknownSince, ...verdict }
    this.#put(agent, { pending, verdict: JSON.stringify(kept) }, kept)
  }

  /** What is demanded of a member: rules as text, since a time. */
  demand(agent: AgentId): Pick<MemberProofRecord, 'demand' | 'demandedAt'> {
    return this.#known.get(agent)?.record ?? { demand: undefined, demandedAt: 0 }
  }

  setDemand(agent: AgentId, demand: string | undefined, demandedAt: Time): void {
    this.#put(agent, { demand, demandedAt })
  }

  /** Roots or keys may have changed: returns the members whose proofs have another worth now. */
  review(): readonly AgentId[] {
    const changed: AgentId[] = []
    for (const [agent, known] of this.#known) {
      const standing = this.#worth(known.verdict)
      if (standing?.state !== known.standing?.state) changed.push(agent)
      this.#known.set(agent, { ...known, standing })
    }
    return changed
  }

  forget(agent: AgentId): void {
    if (this.#known.delete(agent)) this.#changed.add(agent)
  }

  /** Returns the changes since the last call. */
  drain(): readonly Change[] {
    const id = this.#id
    const changes = [...this.#changed].map((agent): Change => {
      const record = this.#known.get(agent)?.record
      return record ? { type: 'putMemberProof', id, record } : { type: 'dropMemberProof', id, agent }
    })
    this.#changed.clear()
    return changes
  }

  #worth(verdict: Verdict | undefined): Verdict | undefined {
    return verdict?.state === 'checked' ? (this.#desk?.standing(verdict) ?? verdict) : verdict
  }

  #put(agent: AgentId, fields: Partial<MemberProofRecord>, verdict?: Verdict): void {
    const known = this.#known.get(agent)
    const nothing = { agent, verdict: undefined, pending: undefined, demand: undefined, demandedAt: 0 }
    const record = { ...(known?.record ?? nothing), ...fields }
    const last = verdict ?? known?.verdict
    this.#known.set(agent, { record, verdict: last, standing: verdict ? this.#worth(verdict) : known?.standing })
    this.#changed.add(agent)
  }
}
