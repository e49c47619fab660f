/**
 * The invites that this agent has issued and those who join by them: in memory, on disk, and what the relay is told.
 * How often an invite may still be used is decided by the count on disk.
 */
import { fromHex, MAX_MEMBERS, message, StaticError, toHex } from '@static/protocol'
import { RegisterInviteRequestSchema, RevokeInviteRequestSchema } from '@static/protocol/relay'
import type { AgentServices } from '../core/agent/services.ts'
import { sha256 } from '../core/channel/history.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { CheckedKeyPackage } from '../mls/index.ts'
import type { AgentId, ChannelId, InviteRecord, JoinerRecord } from '../ports.ts'
import type { JoinRequest } from './join-request.ts'
import { type InviteKeys, inviteKeys } from './keys.ts'

/** An invite of this agent. */
export interface Invite {
  readonly record: InviteRecord
  readonly keys: InviteKeys
}

/** The invites of one agent. */
export class IssuedInvites {
  readonly #agent: Pick<AgentServices, 'context' | 'memberships' | 'requests'>
  readonly #invites = new Map<string, Invite>()
  readonly #joiners = new Map<string, JoinerRecord>()

  constructor(agent: Pick<AgentServices, 'context' | 'memberships' | 'requests' | 'stored'>) {
    this.#agent = agent
    const { invites, joiners } = agent.stored
    for (const record of invites) this.#invites.set(record.id, { record, keys: inviteKeys(record.secret) })
    for (const record of joiners) this.#joiners.set(keyOf(record.channel, record.agent), record)
  }

  get(id: string): Invite | undefined {
    return this.#invites.get(id)
  }

  get records(): readonly InviteRecord[] {
    return [...this.#invites.values()].map(({ record }) => record)
  }

  get joiners(): Iterable<JoinerRecord> {
    return this.#joiners.values()
  }

  joiner(channel: ChannelId, agent: AgentId): JoinerRecord | undefined {
    return this.#joiners.get(keyOf(channel, agent))
  }

  /** Whether somebody may still come, or ask again: who has taken the last use may not have been added yet. */
  isAlive({ revoked, expiresAt }: InviteRecord): boolean {
    return !revoked && expiresAt > this.#agent.context.now()
  }

  /** An invite by which somebody may come, as it is now; throws what a joiner is answered otherwise. */
  checkAlive(id: string): InviteRecord {
    const record = this.#invites.get(id)?.record
    if (!record) throw StaticError.of('invite_invalid')
    if (record.revoked) throw StaticError.of('invite_revoked')
    if (record.expiresAt <= this.#agent.context.now()) throw StaticError.of('invite_expired')
    return record
  }

  /** Keeps an invite, then tells the relay of it: it is on disk before anybody else knows of it. */
  async issue(invite: Invite): Promise<void> {
    this.#put(invite)
    await this.#agent.context.journal.written()
    await this.#register(invite.record)
  }

  /** From now on this agent lets nobody in by it. */
  async revoke(invite: Invite): Promise<void> {
    this.#put({ ...invite, record: { ...invite.record, revoked: true } })
    await this.#agent.context.journal.written()
  }

  /** The relay turns away those who ask by it. */
  async revokeAtRelay({ keys: { inviteId } }: Invite): Promise<void> {
    // Refused when the relay does not know it: then nobody can ask by it.
    await this.#agent.requests.outcome({
      case: 'revokeInvite',
      value: message(RevokeInviteRequestSchema, { inviteId }),
    })
  }

  /** A use is taken before the commit, on disk: a crash in between costs one, and never gives one too many. */
  async takeUse(
    { owner, group, id }: Membership,
    invite: Invite,
    { agentId, identity }: CheckedKeyPackage,
    { nonce, keyPackage }: JoinRequest,
  ): Promise<void> {
    const { context } = this.#agent
    // As it is now: it may have been revoked, or a use given back, while the KeyPackage was checked.
    const record = this.checkAlive(invite.record.id)
    const agent = toHex(agentId)
    if (record.uses >= record.maxUses) throw StaticError.of('invite_used_up')
    if (context.pins.conflict(owner, identity, agent) !== undefined) throw StaticError.of('identity_changed')
    if ((group?.members.size ?? 0) >= MAX_MEMBERS) throw StaticError.of('group_full')
    this.#put({ ...invite, record: { ...record, uses: record.uses + 1 } })
    this.putJoiner({
      channel: id,
      agent,
      invite: record.id,
      nonce,
      keyPackageHash: sha256(keyPackage),
      state: 'taken',
      since: context.now(),
    })
    await context.journal.written()
  }

  /** Nobody came in by this use: another may. */
  async giveBack(channel: ChannelId, agent: AgentId): Promise<void> {
    const joiner = this.joiner(channel, agent)
    const invite = joiner && this.#invites.get(joiner.invite)
    if (!joiner || !invite || joiner.state === 'gone') return
    this.putJoiner({ ...joiner, state: 'gone' })
    const { record } = invite
    const returned = { ...record, uses: Math.max(0, record.uses - 1), returned: record.returned + 1 }
    this.#put({ ...invite, record: returned })
    await this.#agent.context.journal.written()
    // If the relay does not take it, it turns the next one away: a use is lost, and nobody let in.
    if (this.isAlive(returned)) await unlessRefused(this.#register(returned))
  }

  putJoiner(record: JoinerRecord): void {
    // With its channel or its invite it is gone, too.
    if (!this.#invites.has(record.invite)) return
    this.#joiners.set(keyOf(record.channel, record.agent), record)
    this.#agent.context.journal.add({ type: 'putJoiner', record })
  }

  /** Over: those who came by it are ordinary members. */
  drop(id: string): void {
    this.#forget(id)
    for (const [key, joiner] of this.#joiners) if (joiner.invite === id) this.#joiners.delete(key)
  }

  /** A channel is gone, and on disk its invites and joiners with it. */
  dropChannel(channel: ChannelId): void {
    for (const { record } of this.#invites.values()) if (record.channel === channel) this.#invites.delete(record.id)
    for (const [key, joiner] of this.#joiners) if (joiner.channel === channel) this.#joiners.delete(key)
  }

  /** The relay counts what it sees; what was given back it is told. */
  async #register({ id, channel, secret, expiresAt, maxUses, returned }: InviteRecord): Promise<void> {
    const { inviteId, admission } = inviteKeys(secret)
    const value = message(RegisterInviteRequestSchema, {
      channelId: fromHex(channel),
      inviteId,
      admissionKey: admission,
      expiresAtMs: BigInt(expiresAt),
      maxUses: maxUses + returned,
    })
    try {
      await this.#agent.requests.ask({ case: 'registerInvite', value }, () => {})
    } catch (error) {
      if (returned === 0) this.#forget(id)
      throw error
    }
  }

  #put(invite: Invite): void {
    if (!this.#agent.memberships.get(invite.record.channel)) throw StaticError.of('not_found', 'The channel is gone.')
    this.#invites.set(invite.record.id, invite)
    this.#agent.context.journal.add({ type: 'putInvite', record: invite.record })
  }

  #forget(id: string): void {
    this.#invites.delete(id)
    this.#agent.context.journal.add({ type: 'dropInvite', id })
  }
}

/** What the relay or the group does not allow now ends nothing else. */
export async function unlessRefused(task: Promise<void>): Promise<void> {
  try {
    await task
  } catch (error) {
    if (!(error instanceof StaticError) || error.code === 'closed') throw error
  }
}

function keyOf(channel: ChannelId, agent: AgentId): string {
  return `${channel} ${agent}`
}
