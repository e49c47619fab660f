/**
 * The members of a channel, beyond what the group itself records: the keys of identities, and agents that have left but
 * are still in the tree. Any member may remove an agent that has left, using its signed notice; each tries after a
 * random delay.
 */
import { fromHex, type LeaveNoticeFields, StaticError, toHex } from '@static/protocol'
import { same } from '../../platform/bytes.ts'
import { isLeaveOf, type Member } from '../../mls/index.ts'
import type { AgentId, Change, LeaverRecord, StoredChannel } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'

/** The context that a roster needs from its agent. */
type RosterContext = Pick<AgentContext, 'agentId' | 'pins' | 'emit' | 'later' | 'chance'>

/** The longest random delay before a member removes an agent that has left, so that not all try at once. */
const REMOVAL_SPREAD_MS = 5000

/** In the record of an agent that has left according to the relay, but without a valid notice. */
const NO_NOTICE = { publicKey: new Uint8Array(), leafKeys: [], signature: new Uint8Array() }

/** The roster of one channel. */
export class Roster extends Part {
  readonly #context: RosterContext
  readonly #channel: AgentChannel
  readonly #leavers: Map<AgentId, LeaverRecord>
  readonly #planned = new Map<AgentId, () => void>()
  /** The members before the next change. */
  #members: ReadonlyMap<AgentId, Member>
  #changes: Change[] = []

  constructor(context: RosterContext, channel: AgentChannel, { leavers }: Pick<StoredChannel, 'leavers'>) {
    super()
    this.#context = context
    this.#channel = channel
    this.#leavers = new Map(leavers.map((leaver) => [leaver.agent, leaver]))
    this.#members = channel.group?.members ?? new Map()
  }

  /** The notice of an agent that has left and is still in the group. */
  notice(agent: AgentId): LeaveNoticeFields | undefined {
    const leaver = this.#leavers.get(agent)
    return leaver && isProven(leaver) ? noticeOf(leaver) : undefined
  }

  /** Whether the relay claims, without a valid notice, that a member has left. It delivers nothing to that member. */
  isSaidToHaveLeft(agent: AgentId): boolean {
    const leaver = this.#leavers.get(agent)
    return leaver !== undefined && !isProven(leaver)
  }

  /** The other agent that has this identity, if any: the pinned one, or a member. */
  conflict(identity: Uint8Array, agent: AgentId): AgentId | undefined {
    const { owner, group } = this.#channel
    return (
      this.#context.pins.conflict(owner, identity, agent) ?? namesake(group?.members.values() ?? [], identity, agent)
    )
  }

  /** This agent has entered the group. Pins the owner, since this agent chose to join its channel. */
  enter(): void {
    const { group, owner } = this.#channel
    this.#members = group?.members ?? new Map()
    for (const [agent, member] of this.#members) {
      if (!this.#meet(member, []) && agent === owner) this.#context.pins.set(owner, member.identity, agent)
    }
  }

  /**
   * Handles a notice that an agent has left this channel with its current leaf. A notice of an earlier leave is
   * invalid.
   */
  leave(id: Uint8Array, notice: LeaveNoticeFields, head: number): void {
    const context = this.#context
    const { channelId, name, group } = this.#channel
    const agent = toHex(id)
    const member = group?.members.get(agent)
    // Without a leaf there is nothing to remove.
    if (agent === context.agentId || !member) return
    if (!isLeaveOf(channelId, member, notice) || Number(notice.slot) !== head) {
      // The relay's claim removes no one. But if the agent wants to return, the owner can replace its leaf.
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
  override resumed(): void {
    this.removeLeavers()
  }

  /** Schedules the removal of all agents that have left. */
  removeLeavers(): void {
    for (const leaver of this.#leavers.values()) if (isProven(leaver)) this.#plan(leaver)
  }

  /**
   * Handles a commit that added and removed agents. Pins the agents this agent added, except those that asked to join
   * (`byInvite`), because they chose their own names.
   */
  override change({ by, added, removed, formerOwner, byInvite = [] }: RosterChange): void {
    const { id, name, owner, group } = this.#channel
    if (formerOwner !== undefined) this.#context.pins.copy(formerOwner, owner, group?.members.values() ?? [])
    const gone = removed.flatMap((agent) => this.#members.get(agent) ?? [])
    this.#members = group?.members ?? new Map()
    for (const agent of [...removed, ...added]) {
      this.#planned.get(agent)?.()
      this.#planned.delete(agent)
      if (this.#leavers.delete(agent)) this.#changes.push({ type: 'dropLeaver', id, agent })
    }
    for (const agent of added) {
      const member = this.#members.get(agent)
      if (!member) continue
      if (by !== this.#context.agentId) this.#meet(member, gone)
      else if (!byInvite.includes(agent)) this.#context.pins.set(owner, member.identity, agent)
    }
    if (added.length + removed.length === 0) return
    this.#context.emit({ type: 'members_changed', channel: name, by, added, removed })
  }

  /** A member has proven to be the one that its identity was pinned to. */
  repin(agent: AgentId): void {
    const { owner, group } = this.#channel
    const identity = group?.members.get(agent)?.identity
    if (identity && this.#context.pins.conflict(owner, identity, agent) !== undefined)
      this.#context.pins.set(owner, identity, agent)
  }

  /** Pins a member that asked to join and that the owner vouches for, unless another agent has its name by now. */
  pin(agent: AgentId): void {
    const { owner, group } = this.#channel
    const { pins } = this.#context
    const member = group?.members.get(agent)
    if (!member || pins.conflict(owner, member.identity, agent) !== undefined) return
    pins.set(owner, member.identity, agent)
  }

  /** Cancels all scheduled removals. */
  override end(): void {
    for (const cancel of this.#planned.values()) cancel()
    this.#planned.clear()
  }

  override drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  /** Reports a member whose identity previously had another key, either pinned or in a leaf that is gone. */
  #meet({ agentId, identity }: Member, gone: readonly Member[]): boolean {
    const { owner, name } = this.#channel
    const now = toHex(agentId)
    const known = this.#context.pins.conflict(owner, identity, now) ?? namesake(gone, identity, now)
    if (known === undefined) return false
    this.#context.emit({ type: 'identity_changed', channel: name, identity, known, now })
    return true
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
        // Another member removes it, or the next session retries.
        if (!(error instanceof StaticError)) throw error
      })
    })
    this.#planned.set(agent, cancel)
  }

  async #remove(leaver: LeaverRecord): Promise<void> {
    const { agent } = leaver
    await this.#channel.committer.commit((group) =>
      group.members.has(agent) ? { removes: [fromHex(agent)], leaveNotices: [noticeOf(leaver)] } : undefined,
    )
  }
}

/** Another agent among these with the same identity. */
function namesake(members: Iterable<Member>, identity: Uint8Array, agent: AgentId): AgentId | undefined {
  for (const member of members) {
    if (same(member.identity, identity) && toHex(member.agentId) !== agent) return toHex(member.agentId)
  }
  return undefined
}

/** Whether an agent has signed its leave. Otherwise only the relay claims it. */
function isProven({ leafKeys }: LeaverRecord): boolean {
  return leafKeys.length > 0
}

function noticeOf({ publicKey, slot, leafKeys, signature }: LeaverRecord): LeaveNoticeFields {
  return { publicKey, slot: BigInt(slot), leafKeys, signature }
}
