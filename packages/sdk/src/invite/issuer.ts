/**
 * The owner's side of invites (SPEC.md, 6.3): makes them, asks the relay for those who want to join, checks each and
 * answers by a commit with a Welcome, or by a code. Whether an invite may still be used is decided here, by this agent's
 * own clock and its own count on disk; what the relay counts only keeps strangers away.
 */
import { type ErrorCode, MAX_MEMBERS, StaticError } from '@static/protocol'
import type { JoinRequest as PolledRequest } from '@static/protocol/relay'
import type { Agent } from '../core/agent/agent.ts'
import { fromHex, same, toHex } from '../core/bytes.ts'
import { sha256 } from '../core/channel/history.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { CheckedKeyPackage } from '../mls/index.ts'
import type { AgentId, ChannelId, InviteRecord, JoinerRecord, Time } from '../ports.ts'
import { retryDelay } from '../session/refusal.ts'
import { type JoinRequest, openRequest } from './join-request.ts'
import { type InviteKeys, inviteKeys, type JoinPlace, welcomeTag } from './keys.ts'
import { decodeToken, encodeToken, SECRET_BYTES } from './token.ts'

/** Joiners say hello within this time after they were added, or are removed. */
const HELLO_MS = 60_000
const TICK_MS = 5000
/** After connecting, what was said meanwhile must have come before anybody is removed for silence. */
const SETTLE_MS = 10_000
/** The relay lets an agent wait in so many polls at once. */
const POLLS = 4
const LONG_POLL_MS = 25_000
const SHORT_POLL_MS = 1000
const LONGEST_LIFE_MS = 365 * 24 * 60 * 60 * 1000
/** A member that says hello again and again is answered now and then. */
const GREETING_MS = 10_000

interface Invite {
  record: InviteRecord
  readonly keys: InviteKeys
}

/** The invites of one agent. */
export class InviteDesk {
  readonly #agent: Agent
  readonly #relay: string
  readonly #died: (error: StaticError) => void
  readonly #invites = new Map<string, Invite>()
  readonly #joiners = new Map<string, JoinerRecord>()
  /** When a joiner's hello was last answered. */
  readonly #greeted = new Map<string, Time>()
  /** The channels that are asked for. */
  readonly #polled = new Set<ChannelId>()
  readonly #ticking: NodeJS.Timeout
  #openedAt: Time | undefined
  #stopped = false

  /** `relay` is the relay's name; `died` is told when nobody is answered any more. */
  constructor(agent: Agent, relay: string, died: (error: StaticError) => void) {
    this.#agent = agent
    this.#relay = relay
    this.#died = died
    for (const record of agent.stored.invites) {
      this.#invites.set(record.id, { record, keys: inviteKeys(record.secret) })
    }
    for (const record of agent.stored.joiners) this.#joiners.set(keyOf(record.channel, record.agent), record)
    this.#ticking = setInterval(() => this.#watch(this.#tick()), TICK_MS).unref()
  }

  /** A session is open. */
  opened(): void {
    this.#openedAt = this.#agent.now()
    if (this.#agent.isGuest) return
    for (const { record } of this.#invites.values()) if (this.#isAlive(record)) this.#poll(record.channel)
  }

  /** A channel is gone, and on disk its invites and joiners with it. */
  dropped(channel: ChannelId): void {
    for (const { record } of this.#invites.values()) if (record.channel === channel) this.#invites.delete(record.id)
    for (const [key, joiner] of this.#joiners) if (joiner.channel === channel) this.#joiners.delete(key)
  }

  stop(): void {
    this.#stopped = true
    clearInterval(this.#ticking)
  }

  /**
   * Makes an invite to an own channel.
   *
   * @throws {StaticError} `not_allowed`, `api_key_required`, `rate_limited`, `invalid_request`
   */
  async invite(membership: Membership, maxUses: number, lifetimeMs: number): Promise<string> {
    if (!membership.isOwn) throw StaticError.of('not_allowed', 'Only the owner of a channel invites to it.')
    if (membership.failure) throw membership.failure
    if (!Number.isSafeInteger(maxUses) || maxUses < 1) {
      throw StaticError.of('invalid_request', 'maxUses is a whole number of at least 1.')
    }
    if (!(lifetimeMs > 0 && lifetimeMs <= LONGEST_LIFE_MS)) {
      throw StaticError.of('invalid_request', 'The time to live is more than 0 seconds and at most a year.')
    }
    const agent = this.#agent
    const secret = agent.random(SECRET_BYTES)
    const keys = inviteKeys(secret)
    const record: InviteRecord = {
      id: toHex(keys.inviteId),
      channel: membership.id,
      secret,
      expiresAt: agent.now() + Math.floor(lifetimeMs),
      maxUses,
      uses: 0,
      returned: 0,
      revoked: false,
    }
    // On disk before the relay or anybody else knows of it.
    this.#put({ record, keys })
    await agent.journal.written()
    await this.#register(record)
    this.#poll(membership.id)
    const place = this.#placeOf(membership)
    return encodeToken({ ...place, name: membership.name, secret, expiresAt: record.expiresAt, relay: this.#relay })
  }

  /**
   * Ends an invite: nobody joins by it any more.
   *
   * @throws {StaticError} `invite_invalid` when it is not of this agent
   */
  async revoke(token: string): Promise<void> {
    const { secret } = decodeToken(token)
    const invite = this.#invites.get(toHex(inviteKeys(secret).inviteId))
    if (!invite) throw StaticError.of('invite_invalid', 'This agent has made no such invite.')
    await this.#revokeHere(invite)
    await this.#revokeThere(invite)
  }

  /** A member is removed by the owner's will: the invite it came by must not bring it back, whatever happens next. */
  async removing({ id }: Membership, agent: AgentId): Promise<void> {
    const joiner = this.#joiners.get(keyOf(id, agent))
    const invite = joiner && this.#invites.get(joiner.invite)
    if (!invite || invite.record.revoked) return
    await this.#revokeHere(invite)
    // That the relay turns others away is a courtesy: this agent lets nobody in by it.
    this.#watch(this.#revokeThere(invite))
  }

  /** The commit that brings a joiner in is adopted; written together with it, so that a crash finds both or neither. */
  admitted(channel: ChannelId, joiner: string): void {
    const [agent = '', keyPackageHash] = joiner.split(' ')
    const known = this.#joiners.get(keyOf(channel, agent))
    if (known?.state !== 'taken' || toHex(known.keyPackageHash) !== keyPackageHash) return
    this.#putJoiner({ ...known, state: 'added', since: this.#agent.now() })
  }

  /** A new member says hello: it is answered, and stays. */
  hello(membership: Membership, sender: AgentId, nonce: Uint8Array): void {
    const joiner = this.#joiners.get(keyOf(membership.id, sender))
    if (!joiner || !same(joiner.nonce, nonce)) return
    const now = this.#agent.now()
    const key = keyOf(membership.id, sender)
    if (joiner.state === 'here' && now - (this.#greeted.get(key) ?? -Infinity) < GREETING_MS) return
    this.#greeted.set(key, now)
    if (joiner.state !== 'here') this.#putJoiner({ ...joiner, state: 'here' })
    // If it does not go out, the joiner says hello again.
    membership.send('greeting', nonce).catch(() => {})
  }

  // ---- Requests ----

  #poll(channel: ChannelId): void {
    if (this.#polled.has(channel) || this.#stopped) return
    this.#polled.add(channel)
    this.#watch(this.#pollOn(channel).finally(() => this.#polled.delete(channel)))
  }

  /** Asks for requests as long as somebody can join the channel. */
  async #pollOn(channel: ChannelId): Promise<void> {
    while (!this.#stopped) {
      const membership = this.#agent.memberships.get(channel)
      const alive = [...this.#invites.values()].some(
        ({ record }) => record.channel === channel && this.#isAlive(record),
      )
      if (!membership || membership.failure || !alive) return
      const waitMs = this.#polled.size > POLLS ? 0 : LONG_POLL_MS
      const outcome = await this.#agent.outcome({
        case: 'pollJoinRequests',
        value: {
          $typeName: 'static.relay.v1.PollJoinRequestsRequest',
          channelId: membership.channelId,
          waitMs,
          limit: 0,
        },
      })
      if (outcome.type === 'refused') {
        if (outcome.error.code !== 'rate_limited' && outcome.error.code !== 'unavailable') return
        await this.#agent.wait(retryDelay(outcome.error.retryAfterMs))
      } else if (outcome.body.case === 'pollJoinRequests') {
        for (const request of outcome.body.value.requests) await this.#take(membership, request)
        if (waitMs === 0) await this.#agent.wait(SHORT_POLL_MS)
      }
    }
  }

  async #take(membership: Membership, request: PolledRequest): Promise<void> {
    const id = toHex(request.inviteId)
    const invite = this.#invites.get(id)
    try {
      if (!invite || invite.record.channel !== membership.id) throw StaticError.of('invite_invalid')
      await this.#admit(membership, invite, request)
    } catch (error) {
      const { code } = StaticError.from(error)
      if (code === 'closed') throw error
      await this.#answer(request, answerOf(code))
    }
  }

  /** Checks a request and adds its sender; throws what it is to be answered with. */
  async #admit(membership: Membership, invite: Invite, request: PolledRequest): Promise<void> {
    const agent = this.#agent
    this.#checkAlive(invite.record.id)
    const opened = openRequest(invite.keys, this.#placeOf(membership), request.box)
    if (!opened) throw StaticError.of('invite_invalid')
    const checked = await agent.engine.checkKeyPackage(opened.keyPackage, agent.now(), request.agentId)
    const key = keyOf(membership.id, toHex(checked.agentId))
    const known = this.#joiners.get(key)
    const again = known !== undefined && isSame(known, opened)
    // Added already, by this invite or another: its Welcome waits at the relay.
    if (again && (known.state === 'added' || known.state === 'here') && isIn(membership, known.agent)) return
    const hasUse = again && known.state === 'taken' && known.invite === invite.record.id
    if (!hasUse) await this.#takeUse(membership, invite, checked, opened)
    await this.#add(membership, invite, checked, opened)
  }

  /** A use is taken before the commit, on disk: a crash in between costs one, and never gives one too many. */
  async #takeUse(
    { owner, group, id }: Membership,
    invite: Invite,
    { agentId, identity }: CheckedKeyPackage,
    { nonce, keyPackage }: JoinRequest,
  ): Promise<void> {
    // As it is now: it may have been revoked, or a use given back, while the KeyPackage was checked.
    const record = this.#checkAlive(invite.record.id)
    const agent = toHex(agentId)
    if (record.uses >= record.maxUses) throw StaticError.of('invite_used_up')
    if (this.#agent.pins.conflict(owner, identity, agent) !== undefined) throw StaticError.of('identity_changed')
    if ((group?.members.size ?? 0) >= MAX_MEMBERS) throw StaticError.of('group_full')
    this.#put({ ...invite, record: { ...record, uses: record.uses + 1 } })
    this.#putJoiner({
      channel: id,
      agent,
      invite: record.id,
      nonce,
      keyPackageHash: sha256(keyPackage),
      state: 'taken',
      since: this.#agent.now(),
    })
    await this.#agent.journal.written()
  }

  async #add(
    membership: Membership,
    invite: Invite,
    { agentId, signatureKey }: CheckedKeyPackage,
    { keyPackage }: JoinRequest,
  ): Promise<void> {
    const { keys } = invite
    const agent = toHex(agentId)
    const tag = (welcome: Uint8Array, epochAuthenticator: Uint8Array): { inviteId: Uint8Array; tag: Uint8Array } => ({
      inviteId: keys.inviteId,
      tag: welcomeTag(keys, keyPackage, welcome, epochAuthenticator),
    })
    const isTaken = (): boolean => this.#joiners.get(keyOf(membership.id, agent))?.state === 'taken'
    try {
      await membership.commit(
        (group) => {
          // Its commit was pending when this agent stopped, and has passed by now.
          if (!isTaken()) return undefined
          this.#checkAlive(invite.record.id)
          const leaf = group.members.get(agent)
          // Who has lost its state comes back with the same key: out and in, in one commit.
          const removes = leaf && same(leaf.signatureKey, signatureKey) ? [agentId] : []
          return { adds: [keyPackage], removes }
        },
        { tag, joiner: `${agent} ${toHex(sha256(keyPackage))}` },
      )
    } catch (error) {
      if (StaticError.from(error).code !== 'closed' && isTaken()) await this.#giveBack(membership.id, agent)
      throw error
    }
    if (membership.rekeyDue) await membership.rekey()
  }

  async #answer({ inviteId, agentId }: PolledRequest, code: string): Promise<void> {
    const value = { $typeName: 'static.relay.v1.AnswerJoinRequest', inviteId, agentId, code } as const
    // Refused when the request is gone: then nobody waits for it.
    await this.#agent.outcome({ case: 'answerJoin', value })
  }

  // ---- Time ----

  async #tick(): Promise<void> {
    const agent = this.#agent
    const now = agent.now()
    if (agent.isGuest || this.#openedAt === undefined || now - this.#openedAt < SETTLE_MS) return
    for (const joiner of this.#joiners.values()) {
      const membership = agent.memberships.get(joiner.channel)
      if (!membership || membership.failure || now - joiner.since < HELLO_MS) continue
      // Refused, or the members have seen different logs: the next tick tries again.
      if (joiner.state === 'added') await unlessRefused(this.#removeSilent(membership, joiner))
    }
    for (const { record } of this.#invites.values()) {
      if (this.#isAlive(record)) this.#poll(record.channel)
      else if (record.expiresAt + HELLO_MS < now) this.#drop(record)
    }
  }

  async #removeSilent(membership: Membership, { agent }: JoinerRecord): Promise<void> {
    const isSilent = (): boolean => this.#joiners.get(keyOf(membership.id, agent))?.state === 'added'
    let removes = false
    await membership.commit((group) => {
      removes = group.members.has(agent) && isSilent()
      return removes ? { removes: [fromHex(agent)] } : undefined
    })
    // Also one whose hello came while it was being removed: it can ask again.
    if (removes || isSilent()) await this.#giveBack(membership.id, agent)
  }

  /** Nobody came in by this use: another may. */
  async #giveBack(channel: ChannelId, agent: AgentId): Promise<void> {
    const joiner = this.#joiners.get(keyOf(channel, agent))
    const invite = joiner && this.#invites.get(joiner.invite)
    if (!joiner || !invite || joiner.state === 'gone') return
    this.#putJoiner({ ...joiner, state: 'gone' })
    const { record } = invite
    const returned = { ...record, uses: Math.max(0, record.uses - 1), returned: record.returned + 1 }
    this.#put({ ...invite, record: returned })
    await this.#agent.journal.written()
    // If the relay does not take it, it turns the next one away: a use is lost, and nobody let in.
    if (this.#isAlive(returned)) await unlessRefused(this.#register(returned))
  }

  // ---- Inside ----

  /** The relay counts what it sees; what was given back it is told. */
  async #register({ id, channel, secret, expiresAt, maxUses, returned }: InviteRecord): Promise<void> {
    const { inviteId, admission } = inviteKeys(secret)
    const value = {
      $typeName: 'static.relay.v1.RegisterInviteRequest',
      channelId: fromHex(channel),
      inviteId,
      admissionKey: admission,
      expiresAtMs: BigInt(expiresAt),
      maxUses: maxUses + returned,
    } as const
    try {
      await this.#agent.ask({ case: 'registerInvite', value }, () => {})
    } catch (error) {
      if (returned === 0) this.#forget(id)
      throw error
    }
  }

  async #revokeHere(invite: Invite): Promise<void> {
    this.#put({ ...invite, record: { ...invite.record, revoked: true } })
    await this.#agent.journal.written()
  }

  async #revokeThere({ keys: { inviteId } }: Invite): Promise<void> {
    const value = { $typeName: 'static.relay.v1.RevokeInviteRequest', inviteId } as const
    // Refused when the relay does not know it: then nobody can ask by it.
    await this.#agent.outcome({ case: 'revokeInvite', value })
  }

  /** An invite by which somebody may come, as it is now; throws what a joiner is answered otherwise. */
  #checkAlive(id: string): InviteRecord {
    const record = this.#invites.get(id)?.record
    if (!record) throw StaticError.of('invite_invalid')
    if (record.revoked) throw StaticError.of('invite_revoked')
    if (record.expiresAt <= this.#agent.now()) throw StaticError.of('invite_expired')
    return record
  }

  /** Whether somebody may still come, or ask again: who has taken the last use may not have been added yet. */
  #isAlive({ revoked, expiresAt }: InviteRecord): boolean {
    return !revoked && expiresAt > this.#agent.now()
  }

  #placeOf({ channelId, name, owner }: Membership): JoinPlace {
    return { channelId, name, owner: fromHex(owner) }
  }

  #put(invite: Invite): void {
    if (!this.#agent.memberships.has(invite.record.channel)) throw StaticError.of('not_found', 'The channel is gone.')
    this.#invites.set(invite.record.id, invite)
    this.#agent.journal.add({ type: 'putInvite', record: invite.record })
  }

  #putJoiner(record: JoinerRecord): void {
    // With its channel or its invite it is gone, too.
    if (!this.#invites.has(record.invite)) return
    this.#joiners.set(keyOf(record.channel, record.agent), record)
    this.#agent.journal.add({ type: 'putJoiner', record })
  }

  #forget(id: string): void {
    this.#invites.delete(id)
    this.#agent.journal.add({ type: 'dropInvite', id })
  }

  /** Over: those who came by it are ordinary members. */
  #drop({ id }: InviteRecord): void {
    this.#forget(id)
    for (const [key, joiner] of this.#joiners) if (joiner.invite === id) this.#joiners.delete(key)
  }

  /** What fails here fails for everybody who waits to be let in. */
  #watch(task: Promise<void>): void {
    task.catch((error: unknown) => {
      const cause = StaticError.from(error)
      if (this.#stopped || cause.code === 'closed') return
      this.stop()
      this.#died(cause)
    })
  }
}

/** What the relay or the group does not allow now ends nothing else. */
async function unlessRefused(task: Promise<void>): Promise<void> {
  try {
    await task
  } catch (error) {
    if (!(error instanceof StaticError) || error.code === 'closed') throw error
  }
}

function keyOf(channel: ChannelId, agent: AgentId): string {
  return `${channel} ${agent}`
}

/** Whether an agent is in the group, and has not left. */
function isIn(membership: Membership, agent: AgentId): boolean {
  return membership.group?.members.has(agent) === true && membership.leaveNotice(agent) === undefined
}

function isSame({ nonce, keyPackageHash }: JoinerRecord, request: JoinRequest): boolean {
  return same(nonce, request.nonce) && same(keyPackageHash, sha256(request.keyPackage))
}

const ANSWERS: ReadonlySet<ErrorCode> = new Set([
  'invite_expired',
  'invite_used_up',
  'invite_revoked',
  'identity_changed',
  'group_full',
] satisfies ErrorCode[])

/** The code that a joiner is told. */
function answerOf(code: ErrorCode): string {
  return ANSWERS.has(code) ? code : 'invite_invalid'
}
