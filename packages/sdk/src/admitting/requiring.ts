/**
 * What an owner demands of those who join (`require`; SPEC.md, 7.4): its own policy, on which no commit depends. Of those
 * that ask, its agent admits only the ones whose proof it has checked. Those that members add, and those that it adds by
 * hand, are in the group before they can prove anything: it asks them, and removes those that have shown nothing that
 * could satisfy it after a while. Nobody is removed because an issuer is out of reach.
 */
import { sha256 } from '#platform/crypto'
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../agent/context.ts'
import { removeMember } from '../agent/owning.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { memberProofOf } from '../channel/proving/member-proof.ts'
import type { AgentId, ChannelId, Time } from '../ports/index.ts'
import { covers, shownClaim, trustDomainOf } from '../proofs/names.ts'
import { parseRule, type Rule, ruleText, satisfies } from '../proofs/rules.ts'
import { type CheckedProof, isSameSubject, type Verdict } from '../proofs/verdict.ts'
import type { Candidate } from './adding.ts'
import { type Invite, unlessRefused } from './issued.ts'

/** How long a member has to show a proof, and how often it is asked. */
const PATIENCE_MS = 10 * 60_000
const ASK_AGAIN_MS = 4 * 60_000
/** How often a member is asked whose issuer may be out of reach for it: it tries until it can show another. */
const ASK_LAPSED_MS = 3_600_000

/** The rules of `require` as text, one a line: how they are stored. */
export function rulesText(rules: readonly (string | Rule)[]): string {
  return rules.map((rule) => ruleText(parseRule(rule))).join('\n')
}

function rulesOf(text: string): readonly Rule[] {
  return text.split('\n').map((line) => parseRule(line))
}

/**
 * The proof of an agent that asks to join, if it satisfies the rules.
 *
 * @throws {StaticError} `proof_required`, with the reason, which the joiner does not hear; `unavailable` if it cannot be
 *   checked now
 */
export async function checkJoiner(
  { proofs }: Pick<AgentContext, 'proofs'>,
  { channelId }: AgentChannel,
  rules: string,
  { signatureKey, keyPackage, proof }: Pick<Candidate, 'signatureKey' | 'keyPackage' | 'proof'>,
  owner: Uint8Array,
): Promise<CheckedProof> {
  if (!proof || !proofs) throw StaticError.of('proof_required', 'It shows none.')
  const context = { channelId, ownerId: owner, publicKey: signatureKey, place: sha256(keyPackage) }
  const verdict = await proofs.check(proof, context).catch((cause: unknown) => {
    // Nothing is wrong with the joiner: its request waits.
    throw StaticError.of('unavailable', 'Its proof cannot be checked now.', { cause })
  })
  if (verdict.state !== 'checked') {
    const claims = verdict.claimed === undefined ? '' : ` It claims ${verdict.claimed}.`
    throw StaticError.of('proof_required', `Its proof is ${verdict.state}: ${verdict.reason}.${claims}`)
  }
  if (rulesOf(rules).some((rule) => satisfies(verdict, rule))) return verdict
  throw StaticError.of('proof_required', `It is ${verdict.name} ${verdict.subject}, which no rule names.`)
}

/** A stored verdict, if it is still worth as much. */
export function stillProven({ proofs }: Pick<AgentContext, 'proofs'>, stored: string): CheckedProof | undefined {
  const verdict = proofs?.standing(JSON.parse(stored) as CheckedProof)
  return verdict?.state === 'checked' ? verdict : undefined
}

/**
 * The members whose place a joiner takes: with an invite that replaces, those of the same proven subject that its rules
 * would admit, so not another workflow on the same branch. No commit replaces the owner or the standby.
 */
export function replacedBy(
  { group, owner, standby, proving }: AgentChannel,
  { record }: Invite,
  { agent }: Candidate,
  proven: CheckedProof | undefined,
): readonly AgentId[] {
  if (record.replaces !== true || record.require === undefined || !proven) return []
  const rules = rulesOf(record.require)
  return [...(group?.members.keys() ?? [])].filter((member) => {
    const mayGo = member !== agent && member !== owner && member !== standby?.agent
    const last = mayGo ? proving.lastChecked(member) : undefined
    return last && isSameSubject(last, proven) && rules.some((rule) => satisfies(last, rule))
  })
}

/** What the owner has done about a member of which it demands a proof. */
interface Dealing {
  /** When it was last asked. */
  asked: Time
  /** The proof with which it was last reported, as text. */
  told: string | undefined
}

/** Asks members for their proofs, and removes those that have shown none for too long. */
export class Requiring {
  readonly #context: AgentContext
  /** By channel and agent, as long as there is a demand. */
  readonly #dealings = new Map<ChannelId, Map<AgentId, Dealing>>()

  constructor(context: AgentContext) {
    this.#context = context
  }

  /** Called regularly for each channel. */
  async enforce(channel: AgentChannel): Promise<void> {
    const { owner, failure, intake, proving, state } = channel
    const { demands } = proving
    this.#forgetOthers(channel, demands)
    if (demands.length === 0) return
    if (owner !== this.#context.agentId || failure || state !== 'joined' || !intake.isOnline) return
    const overdue = demands.filter((demand) => this.#isOverdue(channel, demand))
    if (overdue.length === 0) return
    // Its proof may be in the log already.
    await unlessRefused(channel.intake.catchUp())
    for (const { agent } of overdue) {
      const demand = proving.demands.find((each) => each.agent === agent)
      if (!demand || !this.#isOverdue(channel, demand)) continue
      this.#tell(channel, agent)
      await unlessRefused(removeMember(this.#context, channel, agent))
    }
  }

  /** Whether a member has to go. Asks it, if it has more time, and takes the demand back once it is satisfied. */
  #isOverdue(
    { id, proving }: AgentChannel,
    { agent, rules, since }: AgentChannel['proving']['demands'][number],
  ): boolean {
    const now = this.#context.now()
    const verdict = proving.of(agent)
    const wanted = rulesOf(rules)
    if (verdict?.state === 'checked' && wanted.some((rule) => satisfies(verdict, rule))) {
      proving.satisfied(agent)
      return false
    }
    const mayWait = verdict && wanted.some((rule) => mayCome(verdict, rule))
    const isUnknown = verdict?.state !== 'checked' && verdict?.unknownSince !== undefined
    // Showing it again helps only if it has ended, or its issuer has taken another key since.
    if (mayWait && verdict.state !== 'lapsed' && !isUnknown) return false
    // The clock was set back.
    if (since > now) proving.demand(agent, rules)
    if (!mayWait && now - since >= PATIENCE_MS) return true
    const dealing = this.#dealingWith(id, agent)
    if (Math.abs(now - dealing.asked) >= (mayWait && !isUnknown ? ASK_LAPSED_MS : ASK_AGAIN_MS)) {
      dealing.asked = now
      proving.ask(agent)
    }
    return false
  }

  /** Says that a member has to go: once, although its removal may be tried many times. */
  #tell({ id, name, proving }: AgentChannel, agent: AgentId): void {
    const verdict = proving.of(agent)
    const proof = verdict && memberProofOf(verdict)
    const dealing = this.#dealingWith(id, agent)
    const told = JSON.stringify(proof ?? null)
    if (dealing.told === told) return
    dealing.told = told
    this.#context.emit({ type: 'member_unproven', channel: name, member: agent, proof })
  }

  #dealingWith(id: ChannelId, agent: AgentId): Dealing {
    const inChannel = this.#dealings.get(id) ?? new Map<AgentId, Dealing>()
    this.#dealings.set(id, inChannel)
    const dealing = inChannel.get(agent) ?? { asked: 0, told: undefined }
    inChannel.set(agent, dealing)
    return dealing
  }

  #forgetOthers({ id }: AgentChannel, demands: AgentChannel['proving']['demands']): void {
    const inChannel = this.#dealings.get(id)
    if (!inChannel) return
    for (const agent of inChannel.keys()) if (!demands.some((demand) => demand.agent === agent)) inChannel.delete(agent)
    if (inChannel.size === 0) this.#dealings.delete(id)
  }
}

/**
 * Whether a proof that this agent could not check, or that has lapsed, is one that a rule names: by its subject if the
 * issuer has signed that, otherwise by the issuer that it claims.
 */
function mayCome(verdict: Verdict, rule: Rule): boolean {
  if (verdict.state === 'checked' || verdict.state === 'invalid') return false
  const { claimed, signed } = verdict
  // No wait makes another subject of it.
  if (signed) return satisfies(signed, rule)
  // Not checked yet.
  if (claimed === undefined) return true
  // A claim is shortened.
  const isShown = (name: string): boolean => claimed === shownClaim(name)
  if ('domain' in rule) return isShown(rule.domain)
  if ('github' in rule) return isShown(rule.github) || covers(rule.github, claimed)
  if ('oidc' in rule) return isShown(rule.oidc.issuer)
  return isShown(trustDomainOf(rule.spiffe.replace(/\*$/, 'x')) ?? '')
}
