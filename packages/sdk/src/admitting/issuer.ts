/**
 * The owner's side of invites (SPEC.md, 6.3 and 6.5). This agent's own clock and its own count on disk (issued.ts)
 * decide whether an invite can still be used; the relay's count only keeps strangers away. A member with an account
 * does steps 2 to 4 and 6 for the invites that members may use. The path of a join request:
 *
 * 1. `invite` stores an invite, registers it at the relay and returns its token.
 * 2. `#poll` asks the relay for the requests of a channel, one poll after another (`ChannelPolls.next`).
 * 3. `#admit` decides about the requests of one poll. By invites that only the owner may use, `admitAsOwner` checks
 *    them (`checkAsOwner`), takes a use of the invite for each (`takeUses`), on disk before the commit, and adds them
 *    (`addAsOwner`). By invites that members may use, `admitAsMember` checks them (`checkAsMember`), claims those that
 *    no other member has claimed (`chooseToClaim`, `Claims.claim`), and adds them (`addAsMember`).
 * 4. `addJoiners` makes one commit with a Welcome for each (`Committer.commit`). The owner answers those that can never
 *    be admitted (`answerJoin`); others stay at the relay for a later poll.
 * 5. `admitted` records, with the adopted commit, that the joiner of one of its own uses was added. For invites that
 *    members may use, `ListedInvites.change` counts the use in every member's agent, and `useCounted` takes over the
 *    count.
 * 6. `hello` answers the joiner's hello with a greeting (`Greeter.greet`), and the joiner is here.
 * 7. `#tick` removes joiners that stay silent, or were added beyond the count (`SharedInvites.tidy`), and returns their
 *    uses.
 */
import { sha256 } from '#platform/crypto'
import { fromHex, MAX_MEMBERS, StaticError, toHex } from '@static/protocol'
import type { AgentServices } from '../agent/services.ts'
import type { JoinRequest } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import { MOST_OPEN_INVITES } from './invite-list.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { Admit, AgentId, ChannelId, Time } from '../ports/index.ts'
import { Greeter } from './greeter.ts'
import { type IssuedInvite, IssuedInvites, unlessRefused } from './issued.ts'
import { type ChannelPolls, JoinPolls } from './polls.ts'
import { BOX_SECRET_BYTES, boxKeyOf } from '../joining/proof-box.ts'
import { JOIN_NONCE_BYTES } from '../joining/request.ts'
import type { CheckedProof } from '../proofs/verdict.ts'
import { inviteKeys } from './keys.ts'
import { admitAsMember, admitAsOwner, answerJoin, joinPlaceOf } from './admit.ts'
import { Requiring } from './requiring.ts'
import { SharedInvites } from './shared.ts'
import { decodeToken, encodeToken, SECRET_BYTES } from './token.ts'

/** An invite id, as opposed to a token, which is longer. */
const INVITE_ID = /^[0-9a-f]{32}$/

/** A joiner that does not say hello within this time after it was added is removed. */
const HELLO_MS = 60_000
/**
 * Extra time for each other joiner of the channel that has not said hello: joiners that arrive together take longer.
 */
const HELLO_MORE_MS = 1000
const TICK_MS = 5000
/** Time after connecting in which pending hellos arrive before anyone is removed for silence. */
const HELLOS_ARRIVE_MS = 10_000
/** Together with the returned uses, it must fit into 32 bits. */
const MOST_USES = 2 ** 31
const LONGEST_LIFE_MS = 365 * 24 * 60 * 60 * 1000

/** How an invite can be used. */
export interface InviteLimits {
  readonly maxUses: number
  readonly lifetimeMs: number
  readonly admit: Admit
  /** The rules that joiners must satisfy, as text; undefined for those of the channel, if it has any. */
  readonly require?: string | undefined
  /** Whether a joiner takes the place of members with the same proven subject. */
  readonly replaces?: boolean | undefined
}

export class InviteIssuer {
  readonly #agent: AgentServices
  readonly #relay: string
  readonly #died: (error: StaticError) => void
  readonly #issued: IssuedInvites
  readonly #polls: JoinPolls
  readonly #shared: SharedInvites
  readonly #greeter: Greeter
  readonly #requiring: Requiring
  readonly #stopTicking: () => void
  /** Resolved when no member of the channel is being removed. */
  readonly #removals = new Map<ChannelId, Promise<void>>()
  /** Channels in which a tick waits for a commit. Otherwise, each tick without a session would queue another one. */
  readonly #ticking = new Set<ChannelId>()
  #openedAt: Time | undefined
  #isStopped = false

  /** `relay` is the relay's name. `died` is called when join requests are no longer answered. */
  constructor(agent: AgentServices, relay: string, died: (error: StaticError) => void) {
    this.#agent = agent
    this.#relay = relay
    this.#died = died
    this.#issued = new IssuedInvites(agent)
    this.#shared = new SharedInvites(agent, this.#issued)
    this.#greeter = new Greeter(agent.context)
    this.#requiring = new Requiring(agent.context)
    this.#polls = new JoinPolls(agent)
    this.#stopTicking = agent.timers.every(TICK_MS, () => this.#watch(this.#tick()))
  }

  // ---- The invites ----

  /**
   * Creates an invite to a channel that this agent owns.
   *
   * @throws {StaticError} `not_allowed`, `api_key_required`, `rate_limited`, `invalid_request`
   */
  async invite(channel: AgentChannel, limits: InviteLimits): Promise<string> {
    const { context } = this.#agent
    const { id, name, owner, failure } = channel
    const { maxUses, lifetimeMs, admit, replaces = false, require = channel.proving.showing.require } = limits
    if (owner !== context.agentId) {
      throw StaticError.of('not_allowed', `This agent does not own channel ${name}. Only the owner can create invites.`)
    }
    if (failure) throw failure
    if (!Number.isSafeInteger(maxUses) || maxUses < 1 || maxUses > MOST_USES) {
      const text = `\`maxUses\` is ${maxUses}. It must be an integer from 1 to ${MOST_USES}.`
      throw StaticError.of('invalid_request', text)
    }
    if (!(lifetimeMs > 0 && lifetimeMs <= LONGEST_LIFE_MS)) {
      const seconds = lifetimeMs / 1000
      throw StaticError.of(
        'invalid_request',
        `\`ttl\` is ${seconds}. It must be more than 0 seconds and at most a year.`,
      )
    }
    if (require === undefined && replaces)
      throw StaticError.of('invalid_request', '`replace` needs `require`: only proven agents take the place of others.')
    if (require !== undefined && admit !== 'owner') {
      const text = 'With `require`, only the owner admits: members cannot be held to its rules.'
      throw StaticError.of('invalid_request', `${text} Leave \`admit\` out.`)
    }
    if (admit !== 'owner') {
      // A member being removed must not learn about the invite.
      while (this.#removals.has(id)) await this.#removals.get(id)
      this.#checkShared(channel, maxUses, admit)
    }
    const secret = context.random(SECRET_BYTES)
    const keys = inviteKeys(secret)
    const expiresAt = context.now() + Math.floor(lifetimeMs)
    const boxSecret = require === undefined ? undefined : context.random(BOX_SECRET_BYTES)
    const record = { id: toHex(keys.inviteId), channel: id, secret, expiresAt, maxUses, boxSecret, require, replaces }
    await this.#issued.issue({ record: { ...record, uses: 0, returned: 0, revoked: false, admit }, keys })
    await this.#shared.publish(channel)
    // A member was removed meanwhile, which ended all invites.
    if (admit !== 'owner') this.#issued.checkAlive(record.id)
    this.#startPolling(id)
    const boxKeyHash = boxSecret && sha256(boxKeyOf(boxSecret))
    return encodeToken({ ...joinPlaceOf(channel), admit, name, secret, expiresAt, relay: this.#relay, boxKeyHash })
  }

  /** Checks the rules that apply only to invites that members may use. */
  #checkShared(channel: AgentChannel, maxUses: number, admit: unknown): void {
    if (admit !== 'members') {
      throw StaticError.of('invalid_request', `\`admit\` is ${JSON.stringify(admit)}. It must be "owner" or "members".`)
    }
    if (maxUses > MAX_MEMBERS) {
      const text = `\`maxUses\` is ${maxUses}. With \`admit: 'members'\` it must be at most ${MAX_MEMBERS}.`
      throw StaticError.of('invalid_request', text)
    }
    if (this.#shared.openInvites(channel).length >= MOST_OPEN_INVITES) {
      const text = `Channel ${channel.name} has ${MOST_OPEN_INVITES} open invites that members may use, the maximum.`
      throw StaticError.of('invalid_request', `${text} Revoke one, or create this one with \`admit: 'owner'\`.`)
    }
  }

  /**
   * Revokes an invite, given its token or its id. No one can join with it afterwards.
   *
   * @throws {StaticError} `invite_invalid` if this agent did not create it
   */
  async revoke(tokenOrId: string): Promise<void> {
    const isId = typeof tokenOrId === 'string' && INVITE_ID.test(tokenOrId)
    const id = isId ? tokenOrId : toHex(inviteKeys(decodeToken(tokenOrId).secret).inviteId)
    const invite = this.#issued.get(id)
    if (!invite) {
      throw StaticError.of('invite_invalid', `This agent has no invite ${id}. List its invites to see their ids.`)
    }
    await this.#issued.revoke(invite)
    const channel = this.#agent.channels.get(invite.record.channel)
    if (channel) await this.#shared.publish(channel)
    await this.#issued.revokeAtRelay(invite)
  }

  /** The invites to a channel. */
  list(channel: ChannelId): readonly IssuedInvite[] {
    return this.#issued.list(channel)
  }

  // ---- Join requests ----

  /** The set of invites that members may use has changed. */
  listChanged(channel: ChannelId): void {
    if (this.#agent.hasAccountSession && this.#hasInvites(channel)) this.#startPolling(channel)
  }

  #pollAll(): void {
    if (!this.#agent.hasAccountSession) return
    for (const { id } of this.#agent.channels) if (this.#hasInvites(id)) this.#startPolling(id)
  }

  #startPolling(id: ChannelId): void {
    const polls = this.#isStopped ? undefined : this.#polls.begin(id)
    if (polls) this.#watch(this.#poll(id, polls).finally(() => this.#polls.end(id)))
  }

  /** Polls for requests while agents can join the channel. */
  async #poll(id: ChannelId, polls: ChannelPolls): Promise<void> {
    while (!this.#isStopped) {
      const channel = this.#agent.channels.get(id)
      if (!channel || channel.failure || !this.#hasInvites(id)) return
      const requests = await polls.next(channel)
      if (!requests) return
      await this.#admit(channel, requests)
      await polls.pause()
    }
  }

  /** Whether this agent may admit agents to a channel. */
  #hasInvites(channel: ChannelId): boolean {
    const now = this.#agent.context.now()
    const shared = this.#agent.channels.get(channel)?.listedInvites.invites ?? []
    const issued = this.#issued.records.filter((record) => record.channel === channel)
    return issued.some((record) => this.#issued.isAlive(record)) || shared.some(({ expiresAt }) => expiresAt > now)
  }

  /** Requests with invites that members may use are decided as a member would; only the owner answers them. */
  async #admit(channel: AgentChannel, requests: readonly JoinRequest[]): Promise<void> {
    const agent = this.#agent
    const issued = this.#issued
    if (channel.owner !== agent.context.agentId) return void (await admitAsMember(agent, channel, requests))
    const byMembers = requests.filter(({ inviteId }) => issued.get(toHex(inviteId))?.record.admit !== 'owner')
    const byOwner = requests.filter((request) => !byMembers.includes(request))
    if (byOwner.length > 0) await admitAsOwner(agent, issued, channel, byOwner)
    if (byMembers.length === 0) return
    for (const { request, error } of await admitAsMember(agent, channel, byMembers, issued)) {
      await answerJoin(agent, request, issued.faultOf(toHex(request.inviteId)) ?? error)
    }
  }

  /**
   * The commit that adds a joiner is adopted. Written in the same transaction, so that a crash keeps both or neither.
   */
  admitted(channel: ChannelId, joiner: string): void {
    const [agent = '', keyPackageHash] = joiner.split(' ')
    const known = this.#issued.joiner(channel, agent)
    if (known?.state !== 'taken' || toHex(known.keyPackageHash) !== keyPackageHash) return
    this.#issued.putJoiner({ ...known, state: 'added', since: this.#agent.context.now() })
    if (known.verdict === undefined) return
    const entered = this.#agent.channels.get(channel)
    entered?.proving.admitted(agent, JSON.parse(known.verdict) as CheckedProof)
    // It has taken the place of a member with that name, whose pin would keep it out later.
    if (this.#issued.get(known.invite)?.record.replaces === true) entered?.roster.repin(agent)
  }

  /** An agent was added. If an earlier join of it was never heard, that one is no longer pending. */
  added(channel: ChannelId, agent: AgentId): void {
    const known = this.#issued.joiner(channel, agent)
    if (known?.state === 'added') this.#issued.putJoiner({ ...known, state: 'here' })
  }

  /** An agent was added by an invite that members may use. */
  useCounted(id: ChannelId, invite: string): void {
    const channel = this.#agent.channels.get(id)
    if (!channel || channel.owner !== this.#agent.context.agentId) return
    this.#shared.storeCount(channel, invite)
    if (!this.#isStopped) queueMicrotask(() => this.#watch(this.#shared.tidy(channel)))
  }

  // ---- Hellos ----

  /** A new member says hello: answers it and keeps the member. */
  hello(channel: AgentChannel, from: AgentId, nonce: Uint8Array): void {
    // A longer one would make the greeting a message that this agent pays for, or one too large to send.
    if (nonce.length !== JOIN_NONCE_BYTES) return
    const { id } = channel
    const joiner = this.#issued.joiner(id, from)
    if (!joiner || !same(joiner.nonce, nonce)) return this.#helloBySharedInvite(channel, from, nonce)
    // Only now: an agent that stays silent is removed and its use returned, so it could otherwise take name after name.
    if (channel.receipts.isVouched(from)) channel.roster.pin(from)
    if (joiner.state === 'here') return this.#greeter.greetLater(channel, { from, nonce })
    this.#issued.putJoiner({ ...joiner, state: 'here' })
    void this.#greeter.greet(channel, [{ from, nonce }])
  }

  /** The same for a member that joined with an invite that members may use. */
  #helloBySharedInvite(channel: AgentChannel, from: AgentId, nonce: Uint8Array): void {
    const when = channel.listedInvites.hello(from)
    if (when === 'now') void this.#greeter.greet(channel, [{ from, nonce }])
    else if (when === 'later' || this.#isForgotten(channel, from)) this.#greeter.greetLater(channel, { from, nonce })
  }

  /** Whether it may have joined with an invite that has ended: it repeats its hello if it missed the answer. */
  #isForgotten({ id, owner, listedInvites }: AgentChannel, from: AgentId): boolean {
    return owner === this.#agent.context.agentId && !this.#issued.joiner(id, from) && !listedInvites.useOf(from)
  }

  // ---- Removals ----

  /**
   * Called before the owner removes a member: revokes the invite it joined with, so that it cannot return with it, and
   * all invites whose keys it knows. Members can use no invites until the returned function is called.
   */
  async removing(channel: ChannelId, agent: AgentId): Promise<() => void> {
    const done = this.#beginRemoval(channel)
    try {
      await this.#endInvites(channel, agent)
      return done
    } catch (error) {
      done()
      throw error
    }
  }

  #beginRemoval(channel: ChannelId): () => void {
    const before = this.#removals.get(channel)
    const { promise, resolve } = Promise.withResolvers<void>()
    const all = Promise.all([before, promise]).then(() => {
      if (this.#removals.get(channel) === all) this.#removals.delete(channel)
    })
    this.#removals.set(channel, all)
    return resolve
  }

  async #endInvites(id: ChannelId, agent: AgentId): Promise<void> {
    const channel = this.#agent.channels.get(id)
    if (channel?.group?.members.has(agent) === true) await this.#shared.endAll(channel)
    const joiner = this.#issued.joiner(id, agent)
    const invite = joiner && this.#issued.get(joiner.invite)
    if (!invite || invite.record.revoked) return
    await this.#issued.revoke(invite)
    // It is optional that the relay turns joiners away: this agent admits no one else with it anyway.
    this.#watch(this.#issued.revokeAtRelay(invite))
  }

  /** A joiner with an invite that members may use was removed for its silence. */
  useReturned(invite: string): void {
    this.#watch(this.#issued.returnUse(invite, true))
  }

  /** Every few seconds: removes joiners that stay silent, and retries what the relay has deferred or refused. */
  async #tick(): Promise<void> {
    const { channels, hasAccountSession, context } = this.#agent
    const issued = this.#issued
    const now = context.now()
    if (!hasAccountSession || this.#openedAt === undefined || now - this.#openedAt < HELLOS_ARRIVE_MS) return
    const unheard = Map.groupBy(
      [...issued.joiners].filter(({ state }) => state === 'added'),
      ({ channel }) => channel,
    )
    for (const [id, joiners] of unheard) {
      const channel = channels.get(id)
      const patience = HELLO_MS + (joiners.length - 1) * HELLO_MORE_MS
      const silent = joiners.filter(({ since }) => now - since >= patience).map(({ agent }) => agent)
      if (!channel || channel.failure || silent.length === 0) continue
      // If it is refused, or the members have seen different logs, the next tick retries it.
      await this.#tickIn(channel, () => unlessRefused(this.#removeSilent(channel, silent)))
    }
    for (const channel of channels) {
      await this.#tickIn(channel, async () => {
        await this.#shared.publish(channel)
        await this.#shared.tidy(channel)
        await this.#requiring.enforce(channel)
      })
    }
    for (const record of issued.records) {
      if (!issued.isAlive(record) && record.expiresAt + HELLO_MS < now) issued.drop(record.id)
    }
    this.#watch(issued.registerReturned())
    this.#pollAll()
  }

  /** Runs part of a tick, unless the same part of an earlier one is still waiting in the channel. */
  async #tickIn({ id }: AgentChannel, act: () => Promise<void>): Promise<void> {
    if (this.#ticking.has(id)) return
    this.#ticking.add(id)
    try {
      await act()
    } finally {
      this.#ticking.delete(id)
    }
  }

  async #removeSilent({ id, committer }: AgentChannel, agents: readonly AgentId[]): Promise<void> {
    const isSilent = (agent: AgentId): boolean => this.#issued.joiner(id, agent)?.state === 'added'
    let removed: readonly AgentId[] = []
    await committer.commit((group) => {
      removed = agents.filter((agent) => group.members.has(agent) && isSilent(agent))
      return removed.length > 0 ? { removes: removed.map((agent) => fromHex(agent)) } : undefined
    })
    // Includes joiners whose hello arrived while they were being removed: they can ask again.
    const gone = agents.filter((agent) => removed.includes(agent) || isSilent(agent))
    for (const agent of gone) await this.#issued.returnUseOf(id, agent, true)
  }

  // ---- The session and the channels ----

  /** A session is open. */
  opened(): void {
    this.#watch(this.#issued.registerReturned())
    this.#watch(this.#issued.repeatRevocations())
    this.#openedAt = this.#agent.context.now()
    this.#polls.opened()
    for (const { listedInvites, sender } of this.#agent.channels) {
      // This agent was killed before it answered them. Any message shows that it is here, and joiners without a
      // greeting repeat their hellos.
      if (listedInvites.unanswered.length === 0) continue
      const { unanswered } = listedInvites
      sender.send('heartbeat', new Uint8Array()).then(
        () => listedInvites.hellosAnswered(unanswered),
        () => {},
      )
    }
    this.#pollAll()
  }

  /** Another agent owns a channel now: no one joins it with this agent's invites. */
  ownerChanged(channel: ChannelId): void {
    this.#issued.endAll(channel)
  }

  /** A channel is gone. */
  dropped(channel: ChannelId): void {
    this.#greeter.dropped(channel)
    this.#issued.dropChannel(channel)
  }

  stop(): void {
    this.#isStopped = true
    this.#stopTicking()
  }

  /** A failure here ends the admission of all joiners. */
  #watch(task: Promise<void>): void {
    task.catch((error: unknown) => {
      const cause = StaticError.from(error)
      if (this.#isStopped || cause.code === 'closed') return
      this.stop()
      this.#died(cause)
    })
  }
}
