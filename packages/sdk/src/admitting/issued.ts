/**
 * The invites that this agent has issued and the agents that join with them: in memory, on disk, and registered at the
 * relay. The count on disk decides how often an invite can still be used. The states of a joiner:
 *
 * - `taken`: a use is taken (`takeUse`), and is on disk before the commit that adds the joiner.
 * - `added`: this agent has adopted the commit (`InviteIssuer.admitted`).
 * - `here`: the joiner said hello (`InviteIssuer.hello`), or has been added in another way since
 *   (`InviteIssuer.added`).
 * - `gone`: it was not added, or stayed silent and was removed, and its use is returned (`returnUseOf`). Without spent
 *   KeyPackages to remember, it is forgotten instead.
 *
 * Another request of the same agent leads to `taken` again.
 */
import { sha256 } from '#platform/crypto'
import { fromHex, MAX_MEMBERS, message, StaticError, toHex } from '@static/protocol'
import { RegisterInviteRequestSchema, RevokeInviteRequestSchema } from '@static/protocol/relay'
import { concat, same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { CheckedKeyPackage } from '../mls/index.ts'
import type { Admit, AgentId, ChannelId, InviteRecord, JoinerRecord, RequestBody } from '../ports/index.ts'
import { refusalError } from '../ports/refusal.ts'
import { boxKeyOf } from '../joining/proof-box.ts'
import type { JoinRequest } from '../joining/request.ts'
import { type InviteKeys, inviteKeys } from './keys.ts'

/** An invite as its issuer sees it. Ended invites are deleted after a while. */
export interface IssuedInvite {
  /** Identifies the invite without revealing it: no one can join with the id alone. */
  readonly id: string
  /** The agents that admit joiners: only this agent, or any member with an account. */
  readonly admit: Admit
  /** Whether it can be used, or why not. */
  readonly state: 'open' | 'used_up' | 'expired' | 'revoked'
  /** How many agents have joined with it. */
  readonly uses: number
  /** How many agents can join with it. */
  readonly maxUses: number
  /** When it stops working. */
  readonly expiresAt: Date
}

/** The place that a joiner takes. */
interface JoinerPlace {
  /** How many others are added by the same commit. */
  readonly others: number
  /** The members whose place it takes. */
  readonly replaced: readonly AgentId[]
  /** The verdict on its proof. */
  readonly verdict: string | undefined
}

type Registration = Extract<RequestBody, { readonly case: 'registerInvite' }>

/** An invite issued by this agent. */
export interface Invite {
  readonly record: InviteRecord
  readonly keys: InviteKeys
}

/**
 * How many uses of an invite are returned because their joiners stayed silent, beyond its own number of uses. Each
 * costs the owner two commits, so otherwise anyone with the token could make it commit forever.
 */
const MOST_SILENT = 16
/** How many registrations of returned uses the relay may defer before the rest wait for the next time. */
const MOST_DEFERRED = 16
/** How many revocations are repeated in one session. */
const MOST_REVOCATIONS = 256
/** How many KeyPackages of a joiner are remembered. Each is one use of an invite, and expires after 90 days. */
const MOST_SPENT = 64
const HASH_BYTES = 32

/** The issued invites of one agent. */
export class IssuedInvites {
  readonly #agent: Pick<AgentServices, 'context' | 'channels' | 'requests'>
  readonly #invites = new Map<string, Invite>()
  readonly #joiners = new Map<string, JoinerRecord>()
  /** By invite: how many uses were returned for silence since this agent started. */
  readonly #silent = new Map<string, number>()
  /** The revoked invites that the relay is known to turn joiners away for, since this agent started. */
  readonly #confirmed = new Set<string>()
  #isRepeating = false
  /** Invites with returned uses that the relay may not know about. */
  readonly #deferred: Set<string>
  #isRegistering = false

  constructor(agent: Pick<AgentServices, 'context' | 'channels' | 'requests' | 'stored'>) {
    this.#agent = agent
    const { invites, joiners } = agent.stored
    for (const record of invites) this.#invites.set(record.id, { record, keys: inviteKeys(record.secret) })
    for (const record of joiners) this.#joiners.set(keyOf(record.channel, record.agent), record)
    this.#deferred = new Set(invites.flatMap(({ id, returned }) => (returned > 0 ? [id] : [])))
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
    const known = this.#joiners.get(keyOf(channel, agent))
    return known?.state === 'gone' ? undefined : known
  }

  /** Whether a joiner has asked with another KeyPackage since: then only the relay still has this request. */
  isSpent(channel: ChannelId, agent: AgentId, { keyPackage }: JoinRequest): boolean {
    const spent = this.#joiners.get(keyOf(channel, agent))?.spent ?? new Uint8Array()
    const hash = sha256(keyPackage)
    for (let at = 0; at < spent.length; at += HASH_BYTES) {
      if (same(spent.subarray(at, at + HASH_BYTES), hash)) return true
    }
    return false
  }

  /** Whether a joiner has joined with the KeyPackage of this request. */
  isJoined(channel: ChannelId, agent: AgentId, { keyPackage }: JoinRequest): boolean {
    const known = this.joiner(channel, agent)
    return known?.state === 'here' && same(known.keyPackageHash, sha256(keyPackage))
  }

  /** The invites to a channel, the next to expire first. */
  list(channel: ChannelId): readonly IssuedInvite[] {
    return this.records
      .filter((record) => record.channel === channel)
      .sort((a, b) => a.expiresAt - b.expiresAt)
      .map((record) => {
        const { id, admit, uses, maxUses, expiresAt } = record
        return { id, admit, state: this.#stateOf(record), uses, maxUses, expiresAt: new Date(expiresAt) }
      })
  }

  /**
   * Whether an agent may still join or ask again, since the agent that took the last use may not have been added yet.
   */
  isAlive({ revoked, expiresAt }: InviteRecord): boolean {
    return !revoked && expiresAt > this.#agent.context.now()
  }

  /** The current record of a valid invite. Throws the error to answer a joiner with if the invite is not valid. */
  checkAlive(id: string): InviteRecord {
    const record = this.#invites.get(id)?.record
    if (!record) throw StaticError.of('invite_invalid')
    if (record.revoked) throw StaticError.of('invite_revoked')
    if (record.expiresAt <= this.#agent.context.now()) throw StaticError.of('invite_expired')
    return record
  }

  /** Why no one can join with an invite; undefined if it can be used. */
  faultOf(id: string): StaticError | undefined {
    try {
      this.checkAlive(id)
      return undefined
    } catch (error) {
      return StaticError.from(error)
    }
  }

  /** Stores an invite, then registers it at the relay: it is on disk before anyone else learns about it. */
  async issue(invite: Invite): Promise<void> {
    this.#put(invite)
    await this.#agent.context.journal.written()
    await this.#register(invite.record)
  }

  /** Revokes the invite: this agent admits no one else with it. */
  async revoke(invite: Invite): Promise<void> {
    this.#put({ ...invite, record: { ...invite.record, revoked: true } })
    await this.#agent.context.journal.written()
  }

  /** Makes the relay turn away joiners with this invite. If the relay refuses, the next session repeats the request. */
  async revokeAtRelay({ record: { id }, keys: { inviteId } }: Invite): Promise<void> {
    const outcome = await this.#agent.requests.outcome({
      case: 'revokeInvite',
      value: message(RevokeInviteRequestSchema, { inviteId }),
    })
    // No one can ask with an invite that the relay does not know.
    const isDone = outcome.type === 'answered' || outcome.error.code === 'not_found'
    if (isDone && this.#invites.has(id)) this.#confirmed.add(id)
  }

  /**
   * The relay may not have processed revocations: this agent stopped before sending them, or the relay refused. It
   * would keep storing requests that no one answers.
   */
  async repeatRevocations(): Promise<void> {
    if (this.#isRepeating) return
    this.#isRepeating = true
    try {
      const now = this.#agent.context.now()
      const open = this.records.filter(
        ({ id, revoked, expiresAt }) => revoked && expiresAt > now && !this.#confirmed.has(id),
      )
      for (const { id } of open.slice(0, MOST_REVOCATIONS)) {
        const invite = this.#invites.get(id)
        if (invite) await this.revokeAtRelay(invite)
        // After one refusal, the relay is not asked for the rest.
        if (invite && !this.#confirmed.has(id)) return
      }
    } finally {
      this.#isRepeating = false
    }
  }

  /**
   * Reserves a use, which must be on disk before the commit. A crash in between loses one use, but never allows one too
   * many.
   */
  takeUse(
    { roster, group, id }: AgentChannel,
    invite: Invite,
    { agentId, identity }: CheckedKeyPackage,
    { nonce, keyPackage }: JoinRequest,
    { others, replaced, verdict }: JoinerPlace,
  ): void {
    const { context } = this.#agent
    // Read again, because the invite may have been revoked, or a use returned, while KeyPackages were checked.
    const record = this.checkAlive(invite.record.id)
    const agent = toHex(agentId)
    if (record.uses >= record.maxUses) throw StaticError.of('invite_used_up')
    const namesake = roster.conflict(identity, agent)
    if (namesake !== undefined && !replaced.includes(namesake)) throw StaticError.of('identity_changed')
    if ((group?.members.size ?? 0) + others - replaced.length >= MAX_MEMBERS) throw StaticError.of('group_full')
    this.#put({ ...invite, record: { ...record, uses: record.uses + 1 } })
    this.putJoiner({
      channel: id,
      agent,
      invite: record.id,
      nonce,
      keyPackageHash: sha256(keyPackage),
      spent: this.#spentBefore(id, agent, sha256(keyPackage)),
      state: 'taken',
      since: context.now(),
      verdict,
    })
  }

  /** Returns a use with which no one joined; for silent joiners, only a limited number of times. */
  async returnUseOf(channel: ChannelId, agent: AgentId, isSilent = false): Promise<void> {
    const joiner = this.joiner(channel, agent)
    const invite = joiner && this.#invites.get(joiner.invite)
    if (!joiner || !invite) return
    // The joiner may ask again with the same KeyPackage, which it has not used.
    if (joiner.spent.length > 0) this.putJoiner({ ...joiner, state: 'gone' })
    else {
      // Not kept, because anyone with the token can ask as any number of agents.
      this.#joiners.delete(keyOf(channel, agent))
      this.#agent.context.journal.add({ type: 'dropJoiner', id: channel, agent })
    }
    await this.returnUse(invite.record.id, isSilent)
  }

  /** The same by invite, for any joiner. */
  async returnUse(id: string, isSilent: boolean): Promise<void> {
    const invite = this.#invites.get(id)
    if (!invite) return
    const { record } = invite
    const silent = this.#silent.get(record.id) ?? 0
    if (isSilent && silent >= record.maxUses + MOST_SILENT) return
    if (isSilent) this.#silent.set(record.id, silent + 1)
    const returned = { ...record, uses: Math.max(0, record.uses - 1), returned: record.returned + 1 }
    this.#put({ ...invite, record: returned })
    await this.#agent.context.journal.written()
    // If the relay refuses this permanently, it turns the next joiner away: a use is lost, but no one is admitted
    // beyond the count.
    const refusal = this.isAlive(returned) ? await refusalOf(this.#register(returned)) : undefined
    if (refusal?.retryable === true && this.#invites.has(id)) this.#deferred.add(id)
  }

  /**
   * Tells the relay about returned uses that it may not know of. Anything the relay defers is left for the next time.
   */
  async registerReturned(): Promise<void> {
    if (this.#isRegistering) return
    this.#isRegistering = true
    try {
      const due = [...this.#deferred]
      let deferred = 0
      for (const id of due) {
        this.#deferred.delete(id)
        if ((await this.#registerAgain(id)) === 'done') continue
        // Moves behind the others.
        this.#deferred.add(id)
        if (++deferred >= MOST_DEFERRED) return
      }
    } finally {
      this.#isRegistering = false
    }
  }

  async #registerAgain(id: string): Promise<'done' | 'deferred'> {
    await this.#agent.context.journal.written()
    const record = this.#invites.get(id)?.record
    if (!record || !this.isAlive(record)) return 'done'
    const outcome = await this.#agent.requests.outcome(registrationOf(record))
    const isDeferred = outcome.type === 'refused' && refusalError(outcome.error).retryable
    return isDeferred && this.#invites.has(id) ? 'deferred' : 'done'
  }

  /** Members, including this agent, count the uses of an invite that they may use. */
  setUses(id: string, count: number): void {
    const invite = this.#invites.get(id)
    if (invite) this.#put({ ...invite, record: { ...invite.record, uses: count - invite.record.returned } })
  }

  putJoiner(record: JoinerRecord): void {
    // It was deleted with its channel or its invite.
    if (!this.#invites.has(record.invite)) return
    this.#joiners.set(keyOf(record.channel, record.agent), record)
    this.#agent.context.journal.add({ type: 'putJoiner', record })
  }

  /** Deletes an ended invite. The agents that joined with it are ordinary members. */
  drop(id: string): void {
    this.#forget(id)
    for (const [key, joiner] of this.#joiners) if (joiner.invite === id) this.#joiners.delete(key)
  }

  /** Ends all invites to a channel, which another agent owns now. Those who have joined with them are ordinary members. */
  endAll(channel: ChannelId): void {
    for (const { id } of this.records.filter((record) => record.channel === channel)) {
      const invite = this.#invites.get(id)
      if (invite && !invite.record.revoked) this.#put({ ...invite, record: { ...invite.record, revoked: true } })
    }
    for (const [key, joiner] of this.#joiners) {
      if (joiner.channel !== channel) continue
      this.#joiners.delete(key)
      this.#agent.context.journal.add({ type: 'dropJoiner', id: channel, agent: joiner.agent })
    }
  }

  /** Forgets a channel whose invites and joiners are already deleted on disk. */
  dropChannel(channel: ChannelId): void {
    for (const { record } of this.#invites.values()) {
      if (record.channel === channel) this.#clear(record.id)
    }
    for (const [key, joiner] of this.#joiners) if (joiner.channel === channel) this.#joiners.delete(key)
  }

  async #register(record: InviteRecord): Promise<void> {
    try {
      await this.#agent.requests.ask(registrationOf(record), () => {})
    } catch (error) {
      if (record.returned === 0) this.#forget(record.id)
      throw error
    }
  }

  /** The KeyPackages with which a joiner asked before this one. */
  #spentBefore(channel: ChannelId, agent: AgentId, hash: Uint8Array): Uint8Array {
    const known = this.#joiners.get(keyOf(channel, agent))
    if (!known) return new Uint8Array()
    // A joiner that was never heard may ask with the same one again: the relay may have returned an older request.
    const last = known.state !== 'here' || same(known.keyPackageHash, hash) ? [] : [known.keyPackageHash]
    return concat(known.spent, ...last).slice(-MOST_SPENT * HASH_BYTES)
  }

  #stateOf({ revoked, expiresAt, uses, maxUses }: InviteRecord): IssuedInvite['state'] {
    if (revoked) return 'revoked'
    if (expiresAt <= this.#agent.context.now()) return 'expired'
    return uses >= maxUses ? 'used_up' : 'open'
  }

  #put(invite: Invite): void {
    if (!this.#agent.channels.get(invite.record.channel))
      throw StaticError.of('not_found', 'The channel of this invite no longer exists.')
    this.#invites.set(invite.record.id, invite)
    this.#agent.context.journal.add({ type: 'putInvite', record: invite.record })
  }

  #forget(id: string): void {
    this.#clear(id)
    this.#agent.context.journal.add({ type: 'dropInvite', id })
  }

  /** Forgets an invite in memory. */
  #clear(id: string): void {
    this.#invites.delete(id)
    this.#silent.delete(id)
    this.#confirmed.delete(id)
    this.#deferred.delete(id)
  }
}

/** Ignores a refusal by the relay or the group, which must not stop anything else. */
export async function unlessRefused(task: Promise<void>): Promise<void> {
  await refusalOf(task)
}

async function refusalOf(task: Promise<void>): Promise<StaticError | undefined> {
  try {
    await task
    return undefined
  } catch (error) {
    if (!(error instanceof StaticError) || error.code === 'closed') throw error
    return error
  }
}

/** Registers an invite at the relay, which counts the uses it sees, so it must learn how many were returned. */
function registrationOf(record: InviteRecord): Registration {
  const { channel, secret, expiresAt, maxUses, returned, admit, boxSecret } = record
  const { inviteId, admission } = inviteKeys(secret)
  const value = message(RegisterInviteRequestSchema, {
    channelId: fromHex(channel),
    inviteId,
    admissionKey: admission,
    expiresAtMs: BigInt(expiresAt),
    maxUses: maxUses + returned,
    members: admit === 'members',
    boxKey: boxSecret ? boxKeyOf(boxSecret) : new Uint8Array(),
  })
  return { case: 'registerInvite', value }
}

function keyOf(channel: ChannelId, agent: AgentId): string {
  return `${channel} ${agent}`
}
