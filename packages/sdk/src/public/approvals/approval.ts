/** The public view of an approval. */
import { StaticError } from '@static/protocol'
import type { Agent } from '../../agent/agent.ts'
import { type Choice, decodeDecision } from '../../approvals/decision.ts'
import type { Outcome } from '../../approvals/outcome.ts'
import { encodeRecord } from '../../approvals/record.ts'
import type { HeldApproval } from '../../channel/approving/held-approval.ts'
import type { AgentChannel } from '../../channel/channel.ts'
import type { AgentId } from '../../ports/index.ts'
import { decidersOf } from './deciders.ts'
import type { ErrorEdge } from '../error-edge.ts'
import {
  type ApprovalOptions,
  type ApprovalWish,
  countsOf,
  type DecideOptions,
  wishOf,
} from '../options/approval-options.ts'
import { checkOptions, shownValue } from '../options/call-options.ts'
import { limitsOf, type SendOptions } from '../options/channel-options.ts'
import { type ChannelMember, memberOf, timeOf } from '../received/member.ts'

/** A member's decision, signed with its key. */
export interface ApprovalDecision extends ChannelMember {
  readonly choice: 'approve' | 'deny'
  /** When it was made, by its own clock. */
  readonly decidedAt: Date
  /** Whether a passphrase was typed for it, as its own program says. */
  readonly attended: boolean
}

/** The end of a request for an approval. Only `approved` is permission, and only it has the action. */
export type ApprovalResult =
  | {
      readonly decision: 'approved'
      /** Those that approved, in the order in which their decisions arrived. */
      readonly by: readonly ApprovalDecision[]
      /** The bytes that they have signed. Execute these and nothing else, once. */
      readonly action: Uint8Array
      readonly approval: Approval
    }
  | {
      readonly decision: 'denied' | 'expired'
      /** Those that denied. */
      readonly by: readonly ApprovalDecision[]
      readonly approval: Approval
    }

/** @internal The channel of an approval. */
export interface ApprovalHome {
  readonly agent: Agent
  readonly channel: AgentChannel
  readonly edge: ErrorEdge
}

/**
 * A request for an approval: one that this agent may decide on, or its own. `title`, `text` and `risk` are the asker's
 * words, and nothing ties them to `action`, which alone is executed.
 */
export class Approval {
  readonly #home: ApprovalHome
  readonly #held: HeldApproval

  /** @internal Get approvals from `Channel.approvals`. */
  constructor(home: ApprovalHome, held: HeldApproval) {
    this.#home = home
    this.#held = held
  }

  /** SHA-256 of the request, 64 hexadecimal digits. */
  get id(): string {
    return this.#held.id
  }

  /** Who asks. */
  get asker(): ChannelMember {
    const { asker } = this.#held.request
    return memberOf(asker, this.isOwn ? this.#identityOf(asker) : this.#held.record.identity)
  }

  /** Whether this agent asks. */
  get isOwn(): boolean {
    return this.#home.channel.approvals.isOwn(this.#held)
  }

  /** The asker's words. */
  get title(): string {
    return this.#held.request.title
  }

  /** The asker's words. */
  get text(): string {
    return this.#held.request.text
  }

  /** The asker's words. */
  get risk(): string {
    return this.#held.request.risk
  }

  /** What is executed if it is approved. */
  get action(): Uint8Array {
    return Uint8Array.from(this.#held.request.action)
  }

  get deadline(): Date {
    return timeOf(this.#held.request.deadline)
  }

  /** Who may decide. */
  get from(): readonly AgentId[] {
    return this.#held.request.from
  }

  /** How many of them must approve. */
  get need(): number {
    return this.#held.request.need
  }

  /** What has become of it. Of another's: as this agent sees it; only the asker's own view counts. */
  get state(): 'pending' | 'approved' | 'denied' | 'expired' {
    return this.#outcome.state
  }

  /** Of this agent's own: whether its permission is used. */
  get isSpent(): boolean {
    return this.#held.record.isSpent
  }

  /** The decisions that have arrived, and that of this agent. */
  get decisions(): readonly ApprovalDecision[] {
    return this.#held.events.flatMap(({ agent, decision, identity }) => {
      const made = decodeDecision(decision)
      if (!made) return []
      const { choice, attended, time } = made
      return [{ ...memberOf(agent, identity), choice, attended, decidedAt: timeOf(time) }]
    })
  }

  /**
   * Decides, for good. Resolves once the relay has stored the decision, which is signed with this agent's key. Any
   * process of the same user can do this.
   *
   * @throws {StaticError} `not_allowed` after the deadline, a second time, or for the asker; see `Channel.send`
   */
  async decide(choice: 'approve' | 'deny', options: DecideOptions = {}): Promise<void> {
    await this.#home.edge.wait(async () => {
      checkOptions('decide', options)
      if (!isChoice(choice))
        throw StaticError.of('invalid_request', `The choice is ${shownValue(choice)}. It must be "approve" or "deny".`)
      await this.#home.channel.approvals.decide(this.#held, choice, options.attended === true)
    })
  }

  /**
   * Of this agent's own: resolves with the outcome, also after a restart.
   *
   * @throws {StaticError} `cancelled` when `signal` is aborted or `timeout` expires, or the error that ended the channel
   */
  async outcome(options: SendOptions = {}): Promise<'approved' | 'denied' | 'expired'> {
    return await this.#home.edge.wait(async () => {
      checkOptions('outcome', options)
      if (!this.isOwn) throw StaticError.of('not_allowed', 'Only the agent that asked for an approval has its outcome.')
      return await this.#home.channel.approvals.outcome(this.#held, limitsOf(options))
    })
  }

  /**
   * Of this agent's own: uses the permission and resolves with the action, once. It is recorded before that, on this
   * disk and at the relay: after a crash, ask again. `requestApproval` has done this.
   *
   * @throws {StaticError} `not_allowed` unless it is approved and not used; `store_rolled_back` in an old copy of the
   *   agent's directory; see `Channel.send`
   */
  async spend(options: SendOptions = {}): Promise<Uint8Array> {
    return await this.#home.edge.wait(async () => {
      checkOptions('spend', options)
      return await this.#home.channel.approvals.spend(this.#held, limitsOf(options))
    })
  }

  /**
   * The request and its decisions as one line of JSON, which `static approval check` verifies without the channel. The
   * decisions of members that were removed before the outcome are left out, as they do not count.
   */
  record(): string {
    return encodeRecord(this.#held.bytes, this.#held.lasting(this.#home.channel.approvals.clockOf(this.#held)))
  }

  /** @internal The decisions that made the outcome. */
  get by(): readonly ApprovalDecision[] {
    const { by } = this.#outcome
    return by.flatMap((agent) => this.decisions.filter(({ agentId }) => agentId === agent))
  }

  get #outcome(): Outcome {
    return this.#held.outcome(this.#home.channel.approvals.clockOf(this.#held))
  }

  #identityOf(agent: AgentId): Uint8Array {
    return this.#home.channel.group?.members.get(agent)?.identity ?? new Uint8Array()
  }
}

/** @internal Asks, waits, and uses the permission. */
export async function requestApproval(
  home: ApprovalHome,
  wish: ApprovalWish,
  options: ApprovalOptions,
): Promise<ApprovalResult> {
  checkOptions('requestApproval', options)
  const { agent, channel } = home
  const { from, signal, asked, ...counts } = options
  const words = wishOf(wish)
  if (!Array.isArray(from)) throw StaticError.of('invalid_request', '`from` is required: the members that may decide.')
  const deciders = decidersOf(channel, agent.agentId, from)
  const held = await channel.approvals.request(
    { ...words, from: deciders, ...countsOf(counts, deciders.length) },
    { signal },
  )
  const approval = new Approval(home, held)
  asked?.(held.id)
  const decision = await channel.approvals.outcome(held, { signal })
  if (decision !== 'approved') return { decision, by: approval.by, approval }
  const action = await channel.approvals.spend(held, { signal })
  return { decision, by: approval.by, action, approval }
}

function isChoice(choice: unknown): choice is Choice {
  return choice === 'approve' || choice === 'deny'
}
