/**
 * The owner's side of invites (SPEC.md, 6.3): creates them, polls the relay for join requests (join-polls.ts), admits
 * joiners (admission.ts), and removes those that stay silent. This agent's own clock and its own count on disk decide
 * whether an invite can still be used (issued.ts); the relay's count only keeps strangers away.
 */
import { fromHex, StaticError, toHex } from '@static/protocol'
import type { AgentServices } from '../core/agent/services.ts'
import { same } from '../core/bytes.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { AgentId, ChannelId, Time } from '../ports.ts'
import { decide, placeOf } from './admission.ts'
import { type IssuedInvite, IssuedInvites, unlessRefused } from './issued.ts'
import { JoinPolls } from './join-polls.ts'
import { inviteKeys } from './keys.ts'
import { decodeToken, encodeToken, SECRET_BYTES } from './token.ts'

/** The id of an invite; a token is longer. */
const INVITE_ID = /^[0-9a-f]{32}$/

/** A joiner that does not say hello within this time after it was added is removed. */
const HELLO_MS = 60_000
/** Added for each other joiner of the channel that has not said hello: joiners that come together take longer. */
const HELLO_MORE_MS = 1000
const TICK_MS = 5000
/** Time after connecting in which pending hellos arrive before anyone is removed for silence. */
const SETTLE_MS = 10_000
const LONGEST_LIFE_MS = 365 * 24 * 60 * 60 * 1000
/**
 * Minimum time between greetings to members of a channel that were greeted before: more than 120 control messages an
 * hour are not free, and a guest must not spend the owner's quota with its hellos.
 */
const AGAIN_MS = 60_000
/** The number of hellos that one greeting answers. It must fit into the smallest message: longer ones are not control. */
const MOST_GREETED = 64

/** Issues the invites of an agent. */
export class InviteIssuer {
  readonly #agent: AgentServices
  readonly #relay: string
  readonly #died: (error: StaticError) => void
  readonly #issued: IssuedInvites
  readonly #polls: JoinPolls
  /** The hellos to answer by the next greeting, by channel; an entry exists while a greeting is being sent. */
  readonly #toGreet = new Map<ChannelId, Uint8Array[]>()
  /** Those of members that were greeted before, to answer later; and when such were last answered. */
  readonly #toGreetAgain = new Map<ChannelId, Uint8Array[]>()
  readonly #greetedAgainAt = new Map<ChannelId, Time>()
  readonly #stopTicking: () => void
  #openedAt: Time | undefined
  #isStopped = false

  /** `relay` is the relay's name. `died` is called if join requests are no longer answered. */
  constructor(agent: AgentServices, relay: string, died: (error: StaticError) => void) {
    this.#agent = agent
    this.#relay = relay
    this.#died = died
    this.#issued = new IssuedInvites(agent)
    this.#polls = InviteIssuer.#pollsOf(this)
    this.#stopTicking = agent.timers.every(TICK_MS, () => this.#watch(this.#tick()))
  }

  /** A session is open. */
  opened(): void {
    this.#openedAt = this.#agent.context.now()
    if (this.#agent.isGuest) return
    for (const record of this.#issued.records) if (this.#issued.isAlive(record)) this.#polls.start(record.channel)
  }

  /** A channel is gone. */
  dropped(channel: ChannelId): void {
    this.#greetedAgainAt.delete(channel)
    this.#issued.dropChannel(channel)
  }

  stop(): void {
    this.#isStopped = true
    this.#stopTicking()
  }

  /**
   * Creates an invite to a channel that this agent owns.
   *
   * @throws {StaticError} `not_allowed`, `api_key_required`, `rate_limited`, `invalid_request`
   */
  async invite(membership: Membership, maxUses: number, lifetimeMs: number): Promise<string> {
    const { context } = this.#agent
    const { id, name, owner, failure } = membership
    if (owner !== context.agentId) {
      throw StaticError.of('not_allowed', `This agent does not own channel ${name}. Only the owner can create invites.`)
    }
    if (failure) throw failure
    if (!Number.isSafeInteger(maxUses) || maxUses < 1) {
      throw StaticError.of('invalid_request', `\`maxUses\` is ${maxUses}. It must be an integer of at least 1.`)
    }
    if (!(lifetimeMs > 0 && lifetimeMs <= LONGEST_LIFE_MS)) {
      const seconds = lifetimeMs / 1000
      throw StaticError.of(
        'invalid_request',
        `\`ttl\` is ${seconds}. It must be more than 0 seconds and at most a year.`,
      )
    }
    const secret = context.random(SECRET_BYTES)
    const keys = inviteKeys(secret)
    const expiresAt = context.now() + Math.floor(lifetimeMs)
    const record = { id: toHex(keys.inviteId), channel: id, secret, expiresAt, maxUses }
    await this.#issued.issue({ record: { ...record, uses: 0, returned: 0, revoked: false }, keys })
    this.#polls.start(id)
    return encodeToken({ ...placeOf(membership), name, secret, expiresAt, relay: this.#relay })
  }

  /**
   * Revokes an invite, named by its token or its id: no one can join with it any more.
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
    await this.#issued.revokeAtRelay(invite)
  }

  /** The invites to a channel. */
  list(channel: ChannelId): readonly IssuedInvite[] {
    return this.#issued.list(channel)
  }

  /**
   * Called before the owner removes a member: revokes the invite it joined with, so that it cannot come back with it.
   */
  async removing(channel: ChannelId, agent: AgentId): Promise<void> {
    const joiner = this.#issued.joiner(channel, agent)
    const invite = joiner && this.#issued.get(joiner.invite)
    if (!invite || invite.record.revoked) return
    await this.#issued.revoke(invite)
    // That the relay turns joiners away is optional: this agent no longer admits anyone with it.
    this.#watch(this.#issued.revokeAtRelay(invite))
  }

  /**
   * The commit that adds a joiner is adopted. Written in the same transaction, so that a crash leaves both or neither.
   */
  admitted(channel: ChannelId, joiner: string): void {
    const [agent = '', keyPackageHash] = joiner.split(' ')
    const known = this.#issued.joiner(channel, agent)
    if (known?.state !== 'taken' || toHex(known.keyPackageHash) !== keyPackageHash) return
    this.#issued.putJoiner({ ...known, state: 'added', since: this.#agent.context.now() })
  }

  /** A new member says hello: answers it and keeps the member. */
  hello(membership: Membership, from: AgentId, nonce: Uint8Array): void {
    const { id } = membership
    const joiner = this.#issued.joiner(id, from)
    if (!joiner || !same(joiner.nonce, nonce)) return
    if (joiner.state === 'here') return this.#greetLater(membership, nonce)
    this.#issued.putJoiner({ ...joiner, state: 'here' })
    void this.#greet(membership, [nonce])
  }

  // ---- Internals ----

  /**
   * Answers hellos. Those that arrive while a greeting is being sent share the next one, as every member reads each.
   */
  async #greet({ id, sender }: Membership, nonces: readonly Uint8Array[]): Promise<void> {
    const isSending = this.#toGreet.has(id)
    const waiting = this.#toGreet.get(id) ?? []
    for (const nonce of nonces) if (!waiting.some((other) => same(other, nonce))) waiting.push(nonce)
    if (isSending) return
    this.#toGreet.set(id, waiting)
    // If sending fails, the joiners say hello again.
    while (waiting.length > 0) {
      await sender.send('greeting', Buffer.concat(waiting.splice(0, MOST_GREETED))).catch(() => {})
    }
    this.#toGreet.delete(id)
  }

  /** Answers the hello of a member that was greeted before, soon or together with others. */
  #greetLater(membership: Membership, nonce: Uint8Array): void {
    const { context } = this.#agent
    const { id } = membership
    const waiting = this.#toGreetAgain.get(id)
    if (waiting) {
      if (!waiting.some((other) => same(other, nonce))) waiting.push(nonce)
      return
    }
    const nonces = [nonce]
    this.#toGreetAgain.set(id, nonces)
    const due = (this.#greetedAgainAt.get(id) ?? -Infinity) + AGAIN_MS - context.now()
    context.later(Math.min(Math.max(0, due), AGAIN_MS), () => {
      this.#toGreetAgain.delete(id)
      this.#greetedAgainAt.set(id, context.now())
      void this.#greet(membership, nonces)
    })
  }

  static #pollsOf(issuer: InviteIssuer): JoinPolls {
    const agent = issuer.#agent
    const issued = issuer.#issued
    return new JoinPolls(agent, {
      get isStopped() {
        return issuer.#isStopped
      },
      hasInvites: (id) => issued.records.some((record) => record.channel === id && issued.isAlive(record)),
      take: (membership, requests) => decide({ agent, issued }, membership, requests),
      watch: (task) => issuer.#watch(task),
    })
  }

  async #tick(): Promise<void> {
    const { memberships, isGuest, context } = this.#agent
    const issued = this.#issued
    const now = context.now()
    if (isGuest || this.#openedAt === undefined || now - this.#openedAt < SETTLE_MS) return
    const unheard = Map.groupBy(
      [...issued.joiners].filter(({ state }) => state === 'added'),
      ({ channel }) => channel,
    )
    for (const [channel, joiners] of unheard) {
      const membership = memberships.get(channel)
      const patience = HELLO_MS + (joiners.length - 1) * HELLO_MORE_MS
      const silent = joiners.filter(({ since }) => now - since >= patience).map(({ agent }) => agent)
      if (!membership || membership.failure || silent.length === 0) continue
      // Refused, or the members have seen different logs: retried at the next tick.
      await unlessRefused(this.#removeSilent(membership, silent))
    }
    for (const record of issued.records) {
      if (issued.isAlive(record)) this.#polls.start(record.channel)
      else if (record.expiresAt + HELLO_MS < now) issued.drop(record.id)
    }
  }

  async #removeSilent({ id, committer }: Membership, agents: readonly AgentId[]): Promise<void> {
    const isSilent = (agent: AgentId): boolean => this.#issued.joiner(id, agent)?.state === 'added'
    let removed: readonly AgentId[] = []
    await committer.commit((group) => {
      removed = agents.filter((agent) => group.members.has(agent) && isSilent(agent))
      return removed.length > 0 ? { removes: removed.map((agent) => fromHex(agent)) } : undefined
    })
    // Includes joiners whose hello came while they were being removed: they can ask again.
    const gone = agents.filter((agent) => removed.includes(agent) || isSilent(agent))
    for (const agent of gone) await this.#issued.giveBack(id, agent, true)
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
