/**
 * The members of a channel, beyond what the group itself records: the keys of identities, and agents that have left but
 * are still in the tree. Any member may remove an agent that has left, with its signed notice; each tries after a
 * random delay.
 */
import { fromHex, type LeaveNoticeFields, StaticError, toHex } from '@static/protocol'
import { isLeaveOf, type Member } from '../../mls/index.ts'
import type { AgentId, Change, LeaverRecord } from '../../ports.ts'
import type { AgentContext } from '../agent/context.ts'
import type { Committer } from './commits/committer.ts'
import type { ChannelView } from './host.ts'

/** What a roster asks of its agent. */
type RosterContext = Pick<AgentContext, 'agentId' | 'pins' | 'emit' | 'later' | 'chance'>

/** Members remove an agent that has left after a random delay up to this, so that not all try at once. */
const REMOVAL_SPREAD_MS = 5000

/** In the record of an agent that has left according to the relay, but with an invalid notice. */
const NO_NOTICE = { publicKey: new Uint8Array(), leafKeys: [], signature: new Uint8Array() }

/** The roster of one channel. */
export class Roster {
  readonly #context: RosterContext
  readonly #channel: ChannelView
  readonly #committer: Committer
  readonly #leavers: Map<AgentId, LeaverRecord>
  readonly #planned = new Map<AgentId, () => void>()
  #changes: Change[] = []

  constructor(context: RosterContext, channel: ChannelView, committer: Committer, leavers: readonly LeaverRecord[]) {
    this.#context = context
    this.#channel = channel
    this.#committer = committer
    this.#leavers = new Map(leavers.map((leaver) => [leaver.agent, leaver]))
  }

  /** The notice of an agent that has left and is still in the group. */
  notice(agent: AgentId): LeaveNoticeFields | undefined {
    const leaver = this.#leavers.get(agent)
    return leaver && isProven(leaver) ? noticeOf(leaver) : undefined
  }

  /** Whether the relay claims that a member has left, without a valid notice. It delivers nothing to that member. */
  isSaidToHaveLeft(agent: AgentId): boolean {
    const leaver = this.#leavers.get(agent)
    return leaver !== undefined && !isProven(leaver)
  }

  /** Pins the key of a member's identity, or reports that it differs from the pinned one. */
  meet({ agentId, identity }: Member): void {
    const { pins } = this.#context
    const { owner, name } = this.#channel
    const agent = toHex(agentId)
    const known = pins.conflict(owner, identity, agent)
    if (known === undefined) pins.set(owner, identity, agent)
    else this.#context.emit({ type: 'identity_changed', channel: name, identity, known, now: agent })
  }

  /**
   * Handles a notice that an agent has left, here and with its current leaf. A notice of an earlier leave is invalid.
   */
  leave(id: Uint8Array, notice: LeaveNoticeFields, head: number): void {
    const context = this.#context
    const { channelId, name, group } = this.#channel
    const agent = toHex(id)
    const member = group?.members.get(agent)
    // Without a leaf there is nothing to remove.
    if (agent === context.agentId || !member) return
    if (!isLeaveOf(channelId, member, notice) || Number(notice.slot) !== head) {
      // The relay's claim removes no one. But if the agent wants to come back, the owner can replace its leaf.
      if (!this.#leavers.has(agent)) this.#keep({ agent, slot: head, ...NO_NOTICE })
      context.emit({
        type: 'roster_lie',
        channel: name,
        detail: `The relay says that agent ${agent} left, but the agent did not sign a notice.`,
      })
      return
    }
    const leaver = {
      agent,
      publicKey: Uint8Array.from(notice.publicKey),
      slot: Number(notice.slot),
      leafKeys: notice.leafKeys.map((key) => Uint8Array.from(key)),
      signature: Uint8Array.from(notice.signature),
    }
    this.#keep(leaver)
    this.#plan(leaver)
  }

  /** Schedules the removal of agents that had left before this agent stopped. */
  resume(): void {
    for (const leaver of this.#leavers.values()) if (isProven(leaver)) this.#plan(leaver)
  }

  /** Handles a commit that added and removed agents. */
  change(by: AgentId, added: readonly AgentId[], removed: readonly AgentId[]): void {
    const { id, name } = this.#channel
    for (const agent of [...removed, ...added]) {
      this.#planned.get(agent)?.()
      this.#planned.delete(agent)
      if (this.#leavers.delete(agent)) this.#changes.push({ type: 'dropLeaver', id, agent })
    }
    for (const agent of added) {
      const member = this.#channel.group?.members.get(agent)
      if (member) this.meet(member)
    }
    if (added.length + removed.length === 0) return
    this.#context.emit({ type: 'members_changed', channel: name, by, added, removed })
  }

  /** Cancels all scheduled removals. */
  stop(): void {
    for (const cancel of this.#planned.values()) cancel()
    this.#planned.clear()
  }

  drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  #keep(leaver: LeaverRecord): void {
    this.#leavers.set(leaver.agent, leaver)
    this.#changes.push({ type: 'putLeaver', id: this.#channel.id, leaver })
  }

  #plan(leaver: LeaverRecord): void {
    const context = this.#context
    const { agent } = leaver
    this.#planned.get(agent)?.()
    const cancel = context.later(context.chance() * REMOVAL_SPREAD_MS, () => {
      this.#planned.delete(agent)
      this.#remove(leaver).catch((error: unknown) => {
        // Another member does it, or the next session retries.
        if (!(error instanceof StaticError)) throw error
      })
    })
    this.#planned.set(agent, cancel)
  }

  async #remove(leaver: LeaverRecord): Promise<void> {
    const { agent } = leaver
    await this.#committer.commit((group) =>
      group.members.has(agent) ? { removes: [fromHex(agent)], leaveNotices: [noticeOf(leaver)] } : undefined,
    )
  }
}

/** Whether an agent has signed that it left. Otherwise only the relay says so. */
function isProven({ leafKeys }: LeaverRecord): boolean {
  return leafKeys.length > 0
}

function noticeOf({ publicKey, slot, leafKeys, signature }: LeaverRecord): LeaveNoticeFields {
  return { publicKey, slot: BigInt(slot), leafKeys, signature }
}
