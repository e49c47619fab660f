/**
 * The owner's part in invites that members may use (SPEC.md, 6.5): keeps the group's list in line with the open
 * invites, ends them before a member is removed, and removes agents that were added beyond the count or never said
 * hello.
 */
import { fromHex } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import { encodeList, type ListedInvite } from './invite-list.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { UseRecord } from '../ports/index.ts'
import { type Invite, type IssuedInvites, unlessRefused } from './issued.ts'

/** A joiner may say hello for as long as the relay keeps its Welcome. */
const WELCOME_KEPT_MS = 7 * 24 * 60 * 60 * 1000

/** The invites of an owner that members may use. */
export class SharedInvites {
  readonly #agent: Pick<AgentServices, 'context'>
  readonly #issued: IssuedInvites

  constructor(agent: Pick<AgentServices, 'context'>, issued: IssuedInvites) {
    this.#agent = agent
    this.#issued = issued
  }

  /** The open invites of a channel. */
  openInvites({ id }: AgentChannel): readonly Invite[] {
    return this.#issued.records
      .filter((record) => record.channel === id && record.admit === 'members' && this.#issued.isAlive(record))
      .flatMap((record) => this.#issued.get(record.id) ?? [])
  }

  /**
   * Tells the group if its list differs from the open invites. Resolves once the list is on disk, and is sent or cannot
   * be sent.
   */
  async publish(channel: AgentChannel): Promise<void> {
    const { listedInvites, owner, failure, state } = channel
    if (owner !== this.#agent.context.agentId || failure || state !== 'joined') return
    const invites = this.openInvites(channel).map(asListed)
    const bytesOf = (some: readonly ListedInvite[]): Uint8Array => encodeList({ number: 0, slot: 0, invites: some })
    if (same(bytesOf(invites), bytesOf(listedInvites.invites))) return
    await listedInvites.publish(invites)
    // If the list were lost, this agent would turn away holders of the token.
    await this.#agent.context.journal.written()
  }

  /**
   * Ends all invites that the members know, because one of them is about to be removed: first in the group, then at the
   * relay.
   */
  async endAll(channel: AgentChannel): Promise<void> {
    const open = this.openInvites(channel)
    if (open.length === 0) return
    for (const invite of open) await this.#issued.revoke(invite)
    await this.publish(channel)
    for (const invite of open) await this.#issued.revokeAtRelay(invite)
  }

  /** An agent was added by an invite: stores the channel's count. */
  storeCount(channel: AgentChannel, invite: string): void {
    const count = channel.listedInvites.count(invite)
    if (count !== undefined) this.#issued.setUses(invite, count)
  }

  /** Removes agents that were added beyond the count or stayed silent. Their uses are returned. */
  async tidy(channel: AgentChannel): Promise<void> {
    const { listedInvites, owner, group, failure } = channel
    const { context } = this.#agent
    if (owner !== context.agentId || failure || !group) return
    const uses = [...listedInvites.uses].filter(({ agent }) => group.members.has(agent))
    const now = context.now()
    const beyond = uses.filter((use) => use.beyond)
    const silent = uses.filter((use) => isSilent(channel, use) && now - use.since >= WELCOME_KEPT_MS)
    if (beyond.length > 0) await unlessRefused(this.#remove(channel, beyond, true))
    if (silent.length > 0) await unlessRefused(this.#remove(channel, silent, false))
  }

  async #remove(channel: AgentChannel, uses: readonly UseRecord[], isBeyond: boolean): Promise<void> {
    const { listedInvites, committer } = channel
    const isDue = ({ agent, slot }: UseRecord): boolean => {
      const use = listedInvites.useOf(agent)
      return use?.slot === slot && (isBeyond || isSilent(channel, use))
    }
    if (!isBeyond) {
      listedInvites.markRemoving(uses)
      await this.#agent.context.journal.written()
    }
    await committer.commit((group) => {
      const removed = uses.filter((use) => group.members.has(use.agent) && isDue(use))
      return removed.length > 0 ? { removes: removed.map(({ agent }) => fromHex(agent)) } : undefined
    })
    if (!isBeyond) await this.publish(channel)
  }
}

/** Whether nothing from a joiner was read since it was added: its hello may be lost, unlike later messages. */
function isSilent({ history }: AgentChannel, { agent, state }: UseRecord): boolean {
  return (state === 'added' || state === 'removing') && !history.hasHeard(agent)
}

/** An invite in the form of the group's list. */
function asListed({ record, keys }: Invite): ListedInvite {
  const { id, expiresAt, maxUses, returned } = record
  return { id, members: keys.members, expiresAt, maxUses: maxUses + returned }
}
