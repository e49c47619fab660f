/**
 * Proofs of who runs the members of a channel (SPEC.md, 5.3): what they have shown (member-proofs.ts), what this agent
 * shows (showing.ts) and, as the owner, what it demands of those that others add. Commits never depend on any of it.
 * Proofs are checked when they arrive and when roots or keys change, never for a message.
 */
import type { AgentContext } from '../../agent/context.ts'
import type { AgentId, Change, StoredChannel, Time } from '../../ports/index.ts'
import type { CheckedProof, Verdict } from '../../proofs/verdict.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'
import { memberProofOf } from './member-proof.ts'
import { MemberProofs, type Pending } from './member-proofs.ts'
import { decodeAsked, decodeShown, encodeAsked } from './proof-frame.ts'
import { Showing } from './showing.ts'

/** A member's proofs are checked at most this often: each costs a verification of a signature, and a write. */
const PACE_MS = 1000

/** What the owner demands of a member. */
export interface Demand {
  readonly agent: AgentId
  readonly rules: string
  readonly since: Time
}

/** The proofs of one channel. */
export class Proving extends Part {
  readonly showing: Showing
  readonly #context: AgentContext
  readonly #channel: AgentChannel
  readonly #members: MemberProofs
  /** Members whose proof is being checked, or was a moment ago. */
  readonly #busy = new Set<AgentId>()
  /** Those of them that are to be checked again: they have shown a proof meanwhile, or roots or keys have changed. */
  readonly #again = new Set<AgentId>()
  /** Members whose proof was last reported as checked. */
  readonly #reported = new Map<AgentId, CheckedProof>()
  #hasEnded = false

  constructor(
    context: AgentContext,
    channel: AgentChannel,
    { ownProof, memberProofs }: Pick<StoredChannel, 'ownProof' | 'memberProofs'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    this.showing = new Showing(context, channel, ownProof)
    this.#members = new MemberProofs(channel.id, context.proofs, memberProofs)
    for (const agent of this.#members.agents) {
      const verdict = this.of(agent)
      if (verdict?.state === 'checked') this.#reported.set(agent, verdict)
    }
  }

  /** What a member's last proof is worth; undefined if it has shown none. */
  of(agent: AgentId): Verdict | undefined {
    return this.#members.of(agent, this.#context.now())
  }

  /** The last proof of a member that was valid when it was checked, whatever it is worth now. */
  lastChecked(agent: AgentId): CheckedProof | undefined {
    return this.#members.lastChecked(agent)
  }

  // ---- What members show ----

  /** A verified frame of a member. */
  receive(kind: 'proof' | 'prove', sender: AgentId, payload: Uint8Array): void {
    if (kind === 'prove') {
      // Only the owner: members see the proofs of others without asking.
      if (sender === this.#channel.owner && decodeAsked(payload) === this.#context.agentId) this.showing.asked()
      return
    }
    const shown = decodeShown(payload)
    if (!shown || !this.#context.proofs) return
    // An agent that was added again must show another proof. This agent does not know when those before it were added.
    const since = this.#channel.receipts.memberSince(sender)
    const place = since > 0 ? since : Math.min(shown.place, this.showing.place)
    this.#members.shown(sender, this.#channel.owner, place, shown.proof)
    this.#channel.turn.touchPart()
    this.#check(sender)
  }

  /** The commit that adds a joiner, which has shown a proof in its request, is adopted. */
  admitted(agent: AgentId, verdict: CheckedProof): void {
    this.#members.setDemand(agent, undefined, 0)
    this.#judged(agent, verdict)
  }

  /** Roots or keys may have changed. */
  review(): void {
    if (this.#channel.failure) return
    this.#members.review()
    for (const agent of this.#members.agents) {
      this.#report(agent)
      if (this.#members.pending(agent)) this.#check(agent)
    }
  }

  #check(agent: AgentId): void {
    if (this.#hasEnded) return
    if (this.#busy.has(agent)) return void this.#again.add(agent)
    this.#busy.add(agent)
    void this.#checkNow(agent).finally(() => {
      this.#context.later(PACE_MS, () => {
        this.#busy.delete(agent)
        // One that could not be decided waits for `review`.
        if (this.#again.delete(agent) && this.#members.pending(agent)) this.#check(agent)
      })
    })
  }

  async #checkNow(agent: AgentId): Promise<void> {
    const { channelId, group } = this.#channel
    const { proofs } = this.#context
    const pending = this.#members.pending(agent)
    const publicKey = group?.members.get(agent)?.signatureKey
    if (!proofs || !pending || !publicKey) return
    const { ownerId, place, proof } = pending
    const unknownSince = this.#members.unknownSince(agent)
    const checking = proofs.check(proof, { channelId, ownerId, publicKey, place }, unknownSince)
    // A check that fails says nothing about the proof, which stays for `review`.
    const verdict = await checking.catch(() => undefined)
    if (!verdict) return
    // It was removed, or added again, or the agent has stopped. One that was shown meanwhile changes nothing about this
    // one: otherwise a member that shows another one in time would never be judged.
    if (this.#hasEnded || this.#members.pending(agent)?.place !== place) return
    this.#judged(agent, verdict, pending)
  }

  #judged(agent: AgentId, verdict: Verdict, pending?: Pending): void {
    this.#members.judged(agent, verdict, this.#context.now(), pending)
    this.#channel.turn.touchPart()
    this.#report(agent)
  }

  /** Tells the application what a member's proof is worth, if that has changed. */
  #report(agent: AgentId): void {
    const now = this.of(agent)
    const before = this.#reported.get(agent)
    const place = { channel: this.#channel.name, member: agent }
    if (now?.state === 'checked') {
      this.#reported.set(agent, now)
      const isNew = before?.kind !== now.kind || before.name !== now.name || before.subject !== now.subject
      if (isNew) this.#context.emit({ type: 'proof_checked', ...place, proof: memberProofOf(now) })
    } else if (before && now) {
      this.#reported.delete(agent)
      this.#context.emit({ type: 'proof_lapsed', ...place, proof: memberProofOf(now) })
    }
  }

  // ---- What the owner demands ----

  /** Demands that an agent, which is about to be added or is a member, satisfies rules. */
  demand(agent: AgentId, rules: string): void {
    this.#members.setDemand(agent, rules, this.#context.now())
    this.#channel.turn.touchPart()
  }

  /** Members that have not satisfied the owner's demand yet. */
  get demands(): readonly Demand[] {
    const { group } = this.#channel
    return this.#members.agents.flatMap((agent) => {
      const { demand: rules, demandedAt: since } = this.#members.demand(agent)
      return rules !== undefined && group?.members.has(agent) === true ? [{ agent, rules, since }] : []
    })
  }

  /** The member has satisfied the demand, or was not added. */
  satisfied(agent: AgentId): void {
    this.#members.setDemand(agent, undefined, 0)
    this.#channel.turn.touchPart()
  }

  /** Asks a member to show its proof. */
  ask(agent: AgentId): void {
    // If it fails, the owner asks again.
    this.#channel.sender.send('prove', encodeAsked(agent)).catch(() => {})
  }

  // ---- What happens in the channel ----

  /** The log begins here for this agent. */
  start(index: number): void {
    this.showing.start(index)
  }

  override change({ added, removed, formerOwner }: RosterChange): void {
    const isOwner = this.#channel.owner === this.#context.agentId
    const demands = added.map((agent) => [agent, this.#members.demand(agent).demand ?? this.showing.require] as const)
    for (const agent of removed) {
      // One that the same commit adds again has to show another proof.
      this.#members.forget(agent)
      this.#reported.delete(agent)
    }
    for (const [agent, rules] of demands) {
      if (isOwner && rules !== undefined) this.#members.setDemand(agent, rules, this.#context.now())
    }
    if (formerOwner !== undefined) this.showing.ownerChanged()
    else if (added.length > 0) this.showing.joined()
  }

  override resumed(): void {
    this.showing.retry()
    // Those that were not checked before a crash.
    for (const agent of this.#members.agents) if (this.#members.pending(agent)) this.#check(agent)
  }

  override drain(): readonly Change[] {
    return [...this.showing.drain(), ...this.#members.drain()]
  }

  override end(): void {
    this.#hasEnded = true
    this.showing.end()
  }

  /** Called regularly. */
  tick(): void {
    for (const agent of this.#reported.keys()) this.#report(agent)
    this.showing.retry()
  }
}
