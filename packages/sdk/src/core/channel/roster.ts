/**
 * Who is in a channel, beyond what the group itself says: the keys of identities, and those who have left and are still
 * in the tree. Any member may remove one that has left, by its signed notice; each tries after a while of its own.
 */
import { fromHex, type LeaveNoticeFields, StaticError, toHex } from '@static/protocol'
import { isLeaveOf, type Member } from '../../mls/index.ts'
import type { AgentId, Change, LeaverRecord } from '../../ports.ts'
import type { AgentContext } from '../agent/context.ts'
import type { Committer } from './committer.ts'
import type { ChannelView } from './host.ts'

/** What a roster asks of its agent. */
type RosterContext = Pick<AgentContext, 'agentId' | 'pins' | 'emit' | 'later' | 'chance'>

/** Members remove one that has left after a random time up to this, so that not all try at once. */
const REMOVAL_SPREAD_MS = 5000

/** The roster of one channel. */
export class Roster {
  readonly #context: RosterContext
  readonly #channel: ChannelView
  readonly #committer: Committer
  readonly #leavers: Map<AgentId, LeaverRecord>
  /** Those of whom the relay says that they have left, by a notice that proves nothing. */
  readonly #unproven = new Set<AgentId>()
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
    return leaver && noticeOf(leaver)
  }

  /** Whether the relay delivers nothing to a member any more, although no notice of it proves that it has left. */
  isSaidToHaveLeft(agent: AgentId): boolean {
    return this.#unproven.has(agent)
  }

  /** Somebody is in the channel: the first key of an identity is remembered, another one told. */
  meet({ agentId, identity }: Member): void {
    const { pins } = this.#context
    const { owner, name } = this.#channel
    const agent = toHex(agentId)
    const known = pins.conflict(owner, identity, agent)
    if (known === undefined) pins.set(owner, identity, agent)
    else this.#context.emit({ type: 'identity_changed', channel: name, identity, known, now: agent })
  }

  /** An agent says that it has left, at this place and with this leaf: the notice of an earlier leave proves nothing. */
  leave(id: Uint8Array, notice: LeaveNoticeFields, head: number): void {
    const context = this.#context
    const { channelId, name, group } = this.#channel
    const agent = toHex(id)
    const member = group?.members.get(agent)
    // Without a leaf there is nothing to remove.
    if (agent === context.agentId || !member) return
    if (!isLeaveOf(channelId, member, notice) || Number(notice.slot) !== head) {
      // The relay's word removes nobody. But if the agent wants to come back, the owner can make room for it.
      this.#unproven.add(agent)
      context.emit({ type: 'roster_lie', channel: name, detail: `Agent ${agent} has not signed that it left.` })
      return
    }
    const leaver = {
      agent,
      publicKey: Uint8Array.from(notice.publicKey),
      slot: Number(notice.slot),
      leafKeys: notice.leafKeys.map((key) => Uint8Array.from(key)),
      signature: Uint8Array.from(notice.signature),
    }
    this.#leavers.set(agent, leaver)
    this.#changes.push({ type: 'putLeaver', id: this.#channel.id, leaver })
    this.#plan(leaver)
  }

  /** Those who had left when the agent stopped are still to be removed. */
  resume(): void {
    for (const leaver of this.#leavers.values()) this.#plan(leaver)
  }

  /** A commit has added and removed agents. */
  change(by: AgentId, added: readonly AgentId[], removed: readonly AgentId[]): void {
    const { id, name } = this.#channel
    for (const agent of [...removed, ...added]) {
      this.#planned.get(agent)?.()
      this.#planned.delete(agent)
      this.#unproven.delete(agent)
      if (this.#leavers.delete(agent)) this.#changes.push({ type: 'dropLeaver', id, agent })
    }
    for (const agent of added) {
      const member = this.#channel.group?.members.get(agent)
      if (member) this.meet(member)
    }
    if (added.length + removed.length === 0) return
    this.#context.emit({ type: 'members_changed', channel: name, by, added, removed })
  }

  /** Nothing is planned any more. */
  stop(): void {
    for (const cancel of this.#planned.values()) cancel()
    this.#planned.clear()
  }

  drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  #plan(leaver: LeaverRecord): void {
    const context = this.#context
    const { agent } = leaver
    this.#planned.get(agent)?.()
    const cancel = context.later(context.chance() * REMOVAL_SPREAD_MS, () => {
      this.#planned.delete(agent)
      this.#remove(leaver).catch((error: unknown) => {
        // Another member does it, or the next session tries again.
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

function noticeOf({ publicKey, slot, leafKeys, signature }: LeaverRecord): LeaveNoticeFields {
  return { publicKey, slot: BigInt(slot), leafKeys, signature }
}
