/**
 * The joiner's side of invites (SPEC.md, 6.3): what a join does in each of its states (join.ts). A request is stored
 * before it is sent and is resent in every session, so a join continues with the same token after a timeout or a crash.
 * A Welcome is accepted only if it was made for this request with the invite's keys, the owner's leaf signed it, and
 * the owner answers this agent's hello. If members may admit, another member may do both, and the owner's leaf must
 * show that the owner has committed.
 */
import { sha256 } from '#platform/crypto'
import { type ErrorCode, ERRORS, fromHex, StaticError, toHex } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import { inviteKeys } from '../admitting/keys.ts'
import { decodeToken, invalid, type InviteToken } from '../admitting/token.ts'
import { resumeOf } from '../agent/deliveries.ts'
import { newChannel } from '../agent/founding.ts'
import { leaveChannel } from '../agent/leaving.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import type { Joined } from '../mls/index.ts'
import { same } from '../platform/bytes.ts'
import type { AgentId, AttemptRecord, ChannelId, SessionInfo, Time } from '../ports/index.ts'
import { retryDelay } from '../ports/refusal.ts'
import { JoinRequests, LATE_WELCOME_MS } from './asking.ts'
import { checkName, heldChannel } from './held-channel.ts'
import { helloDelayMs, isAmong, sendHello } from './hello.ts'
import { isEntered, isOver, type Join } from './join.ts'
import { OpenJoins } from './open-joins.ts'
import { withdrawalOf } from './request.ts'
import { indexOf, openWelcome, startOf } from './welcome.ts'

/** How often in one session an unusable Welcome is retried, or a spoilt request replaced. */
const MOST_ENTRIES = 16
const FIRST_ENTRY_MS = 5000
const LONGEST_ENTRY_MS = 600_000

/** A step may fail with these errors, which a new session does not resolve, so waiting calls get them. */
const FATAL: ReadonlySet<string> = new Set(['internal_error', 'store_failed', 'channel_exists'])

/**
 * The Welcome is from an earlier attempt: since then, this agent was removed and added again. The newer Welcome
 * follows.
 */
class Superseded extends Error {}

/** The outcome of a Welcome: the channel is entered, there is nothing to enter, or it is retried later. */
type WelcomeUse = 'entered' | 'nothing' | 'later'

/** The pending joins by token. */
export class Joins {
  readonly #agent: AgentServices
  readonly #relay: string
  readonly #open: OpenJoins
  readonly #asking: JoinRequests
  /** Channels whose Welcome is being checked: it may replace an earlier one for the same request. */
  readonly #checking = new Set<ChannelId>()
  /** Channels that were entered with the pending request. */
  readonly #entered = new Set<ChannelId>()
  #stopped = false

  /** `relay` is the relay's name. */
  constructor(agent: AgentServices, relay: string) {
    this.#agent = agent
    this.#relay = relay
    this.#open = new OpenJoins(agent)
    this.#asking = new JoinRequests(agent, this.#open, {
      stepLater: (join, waitMs) => this.#stepLater(join, undefined, waitMs),
      refuse: (join, error) => this.#refuse(join, error),
    })
    for (const { record } of this.#open) {
      const state = agent.channels.get(record.channel)?.state ?? 'offered'
      if (state !== 'offered' && state !== 'joined') this.#entered.add(record.channel)
    }
  }

  /**
   * Joins with a token. Resolves once the owner has answered this agent's hello. `show` names the issuer whose proof this
   * agent shows from now on.
   *
   * @throws {StaticError} `invite_*`, `join_timeout`, `invalid_welcome`, `channel_exists`, `identity_changed`,
   *   `group_full`
   */
  async join(name: string, text: string, timeoutMs: number, show?: string): Promise<AgentChannel> {
    const token = decodeToken(text)
    if (token.name !== name) invalid(`The invite token is for channel ${token.name}, not ${name}.`)
    if (token.relay !== this.#relay) {
      invalid(
        `The invite token is for relay ${token.relay}, but this agent uses ${this.#relay}. Connect to ${token.relay}.`,
      )
    }
    const until = this.#agent.context.now() + timeoutMs
    const held = await heldChannel(this.#agent, this.#open, token, timeoutMs)
    if (held) {
      if (show !== undefined) held.proving.showing.choose({ show })
      return held
    }
    const invite = toHex(inviteKeys(token.secret).inviteId)
    const known = this.#open.get(invite)
    const begin = async (): Promise<Join> => this.#open.get(invite) ?? (await this.#begin(token, show))
    const join = known ?? (await this.#asking.inTurn(name, begin))
    // Joined meanwhile, by another token or an offer.
    const joined = this.#open.joinedChannel(join)
    if (joined) return joined
    if (this.#open.hasExpired(join)) {
      this.#open.noteState(join)
      this.#open.end(join, 'refused')
      throw StaticError.of('invite_expired')
    }
    // The relay may have forgotten the earlier request, or this agent has withdrawn it.
    if (known) {
      if (known.record.takenBack) this.#open.change(known, { takenBack: false })
      if (show !== undefined) this.#open.change(known, { show })
      this.#step(known)
    }
    if (this.#stopped) throw StaticError.of('closed')
    return await this.#outcomeOf(join, timeoutMs, until)
  }

  // ---- Events ----

  /** A session is open: pending requests are resent. */
  opened(info: SessionInfo): void {
    this.#asking.opened(info)
    for (const held of this.#agent.channels)
      if (this.#open.isAbandoned(held)) leaveChannel(this.#agent, held).catch(() => {})
    for (const join of this.#open) {
      // The relay redelivers the waiting Welcome.
      join.cancelEntry?.()
      join.entries = 0
      this.#step(join)
    }
  }

  /**
   * Handles a Welcome for a request of this agent; returns undefined if it is for none. Anyone who knows an invite's id
   * can name it, but only an agent that has read the request knows the KeyPackage.
   */
  welcomed(delivered: DeliverWelcome): Promise<void> | undefined {
    const { welcome = new Uint8Array() } = delivered.welcome ?? {}
    const { keyPackages, context } = this.#agent
    const named = keyPackages.named(welcome)
    // Tokens to one channel share a request.
    const asked = [...this.#open].filter(({ record: own }) => named.some((one) => same(one.keyPackage, own.keyPackage)))
    const inviteId = context.engine.welcomeInvite(welcome)
    const join = asked.find(({ keys }) => inviteId && same(keys.inviteId, inviteId)) ?? asked[0]
    if (!join) return undefined
    return this.#enter(join, delivered).then(
      (entry) => {
        if (entry !== 'entered') return
        for (const { cancelEntry } of asked) cancelEntry?.()
        this.#step(join)
      },
      (error: unknown) => {
        const refused = StaticError.from(error)
        // A member read the request and added this agent with an invalid Welcome, so the owner has to add it again with
        // a new KeyPackage. The same applies if another channel has the name.
        const isBad = refused.code === 'invalid_welcome' && asked.some(({ record }) => record.admit === 'members')
        const isOut = refused.code === 'channel_exists' && !this.#agent.channels.get(join.record.channel)
        const isSpoilt = isBad && keyPackages.has(join.record.keyPackage)
        if (isBad || isOut) keyPackages.forget(join.record.keyPackage)
        this.#agent.context.emit({ type: 'welcome_refused', channel: join.record.name, error: refused })
        this.#open.fail(join, refused)
        // The relay still has the spoilt request: acting on it would add this agent in vain.
        if (isSpoilt) for (const each of asked) this.#askLater(each)
      },
    )
  }

  /** Handles the owner's refusal of a request. */
  refused(inviteId: Uint8Array, code: string): void {
    const join = this.#open.get(toHex(inviteId))
    if (!join) return
    const isKnown = Object.hasOwn(ERRORS, code)
    this.#refuse(
      join,
      code === 'identity_changed'
        ? this.#identityRefused(join.record)
        : StaticError.of(isKnown ? (code as ErrorCode) : 'invite_invalid'),
    )
  }

  /** Handles the answer to a hello by the owner or the member that added this agent: it has joined. */
  greeting(channel: AgentChannel, sender: AgentId, nonces: Uint8Array): void {
    const joins = this.#open.of(channel)
    const mayGreet = ({ admit }: AttemptRecord): boolean =>
      sender === channel.owner || (admit === 'members' && sender === channel.standing.record.addedBy)
    if (!joins.some(({ record }) => mayGreet(record) && isAmong(record.nonce, nonces))) return
    for (const join of joins) this.#open.noteState(join)
    channel.become('joined')
    // Joins to this channel with other tokens have succeeded as well.
    for (const join of joins) {
      this.#open.end(join, 'joined')
      for (const { resolve } of join.waiting) resolve(channel)
    }
  }

  /** This agent is in a channel by an offer: calls that wait for it get the channel, and its requests are withdrawn. */
  accepted(id: ChannelId): void {
    for (const join of this.#open.on(id)) {
      const joined = this.#open.joinedChannel(join)
      if (!joined) continue
      for (const { resolve } of join.waiting) resolve(joined)
      this.#step(join)
    }
  }

  /** The application is about to leave a channel. If this agent has joined it, its earlier requests are over. */
  leaving(channel: AgentChannel): void {
    if (channel.state !== 'joined') return
    for (const join of this.#open.of(channel)) {
      this.#open.noteState(join)
      this.#open.end(join, 'left')
    }
  }

  /** A channel has failed. If this agent was still joining it, it leaves, because the application has nothing in it. */
  failed(name: string): void {
    const channel = this.#agent.channels.named(name)
    // A channel joined by an offer may have messages to read.
    if (!channel || this.#open.of(channel).every(({ record }) => record.takenBack)) return
    // If this fails, `join` leaves it later.
    queueMicrotask(() => void leaveChannel(this.#agent, channel).catch(() => {}))
  }

  /**
   * Another agent owns a channel now: no one answers a joiner of the former owner's, and its tokens name that owner. A
   * joiner that was not greeted leaves.
   */
  ownerChanged(channel: AgentChannel, former: AgentId): void {
    const { id, name } = channel
    const text = `Agent ${channel.owner} has taken channel ${name} over, which ends the invites of its former owner. Ask the new owner for one.`
    for (const join of this.#open.alike({ channel: id, name, owner: former })) {
      this.#refuse(join, StaticError.of('invite_revoked', text))
    }
    // An agent that has joined by an offer may hold a token of the owner that takes the channel over only now.
    this.accepted(id)
    if (channel.state !== 'joining') return
    queueMicrotask(() => void leaveChannel(this.#agent, channel).catch(() => {}))
  }

  /** A channel is gone, for example because this agent was removed before it was greeted: asks again. */
  dropped(id: ChannelId): void {
    // The request is used up if it brought this agent into the channel.
    const isUsed = this.#entered.delete(id) && !this.#checking.has(id)
    for (const join of this.#open.on(id)) {
      // A member that has heard this agent would take the same request for a replay.
      if (isUsed) this.#agent.keyPackages.forget(join.record.keyPackage)
      this.#step(join)
    }
  }

  stop(): void {
    this.#stopped = true
    for (const join of this.#open) this.#open.fail(join, StaticError.of('closed'))
  }

  // ---- Steps ----

  /** Takes the step that the state of a join calls for. */
  #step(join: Join): void {
    switch (this.#open.noteState(join)) {
      case 'asking':
        return this.#ask(join)
      // A member that has already added this agent would remove it in order to add it again.
      case 'welcomed':
        return
      case 'entering':
      case 'greeting':
        return this.#sayHello(join)
      case 'expired':
        return this.#expire(join)
      case 'withdrawn':
        return this.#open.hasExpired(join) ? this.#expire(join) : this.#withdraw(join)
      case 'dropping':
        return this.#open.hasExpired(join) ? this.#expire(join) : this.#dropAfterLateWelcome(join)
      // The owner must not add this agent while it leaves. It asks again once it has left (`dropped`).
      case 'leaving':
        return
      case 'joined':
      case 'refused':
      case 'left':
      case 'broken':
    }
  }

  /** Takes the next step after a delay, provided this agent is then still in the same `channel`, or still in none. */
  #stepLater(join: Join, channel: AgentChannel | undefined, waitMs: number): void {
    join.cancel?.()
    if (this.#stopped) return
    join.cancel = this.#agent.context.later(waitMs, () => {
      if (!isOver(this.#open.stateOf(join)) && this.#open.enteredChannel(join) === channel) this.#step(join)
    })
  }

  async #begin(token: InviteToken, show: string | undefined): Promise<Join> {
    if (token.expiresAt <= this.#agent.context.now()) throw StaticError.of('invite_expired')
    const { name, channelId, owner, secret, expiresAt, admit, boxKeyHash } = token
    const channel = toHex(channelId)
    // The same request with another token: whichever the owner accepts first, it adds this agent once.
    const [other] = this.#open.alike({ channel, name, owner: toHex(owner) })
    const { nonce, keyPackage } = other?.record ?? (await this.#asking.fresh())
    const join = this.#open.begin({
      invite: toHex(inviteKeys(secret).inviteId),
      channel,
      name,
      owner: toHex(owner),
      secret,
      expiresAt,
      nonce,
      keyPackage,
      admit,
      takenBack: false,
      boxKeyHash,
      show,
    })
    await this.#agent.context.journal.written()
    this.#step(join)
    return join
  }

  /** Waits until a join that has a timeout, and a time at which it ends, has succeeded or failed. */
  async #outcomeOf({ record, waiting }: Join, timeoutMs: number, until: Time): Promise<AgentChannel> {
    const { context } = this.#agent
    const outcome = Promise.withResolvers<AgentChannel>()
    waiting.add(outcome)
    const cancel = context.later(Math.max(0, until - context.now()), () => outcome.reject(noAnswer(record, timeoutMs)))
    try {
      return await outcome.promise
    } finally {
      cancel()
      waiting.delete(outcome)
    }
  }

  // ---- Asking ----

  /** Sends the request. */
  #ask(join: Join): void {
    this.#asking.send(join).catch((error: unknown) => this.#failIfFatal(join, StaticError.from(error)))
  }

  /** Asks with a new KeyPackage, after a delay: otherwise a member could make it ask forever. */
  #askLater(join: Join): void {
    const mayAsk = !this.#open.enteredChannel(join) && join.entries < MOST_ENTRIES
    if (mayAsk) this.#stepLater(join, undefined, retryEntryMs(join.entries++))
  }

  // ---- Entering ----

  /**
   * Checks a Welcome and enters the channel, which stays hidden until the owner has answered. The relay deletes an
   * acknowledged Welcome, so this agent acknowledges it only when the channel is on disk, or when the Welcome can never
   * be used.
   *
   * @throws {StaticError} `invalid_welcome`, `channel_exists`: the Welcome is refused permanently
   */
  async #enter(join: Join, delivered: DeliverWelcome): Promise<WelcomeUse> {
    const { context, channels } = this.#agent
    const { channel: id, name } = join.record
    if (this.#holdIfEarlier(join, delivered)) return 'nothing'
    this.#checking.add(id)
    try {
      return await channels.names.run(name, async () => {
        this.#checking.add(id)
        // An offer was accepted after it arrived.
        if (this.#holdIfEarlier(join, delivered)) return 'nothing'
        const entry = await this.#useWelcome(join, delivered).catch((error: unknown) => {
          this.#acknowledge(delivered)
          throw error
        })
        if (entry === 'later') return entry
        await context.journal.written()
        this.#acknowledge(delivered)
        return entry
      })
    } finally {
      this.#checking.delete(id)
    }
  }

  async #useWelcome(join: Join, delivered: DeliverWelcome): Promise<WelcomeUse> {
    const { context, channels } = this.#agent
    const { channel: id, name } = join.record
    const welcome = Uint8Array.from(delivered.welcome?.welcome ?? [])
    const before = this.#open.enteredChannel(join)
    const used = channels.get(id)?.usedWelcomeHash
    if (used && same(used, sha256(welcome))) return 'nothing'
    checkName(this.#agent, name, id)
    const joined = await openWelcome(this.#agent, join, welcome, delivered.welcome?.tag ?? new Uint8Array())
    // Refused meanwhile: it would never say hello.
    if (isOver(this.#open.stateOf(join))) {
      wipeEpoch(context.engine, joined)
      return 'nothing'
    }
    // Either this agent was removed before its hello arrived, asked again and was added again, or it also has an offer.
    const offered = channels.get(id)
    const mayReplace = offered?.name === name && (offered === before || offered.state === 'offered')
    if (offered && !mayReplace) {
      wipeEpoch(context.engine, joined)
      throw StaticError.of('channel_exists', `This agent is already a member of channel ${name}.`)
    }
    if (offered) channels.drop(offered, undefined)
    return await this.#enterGroup(join, joined, sha256(welcome), delivered)
  }

  /** Asks the relay where the log begins. If the relay does not answer that now, only the KeyPackage is kept. */
  async #enterGroup(
    join: Join,
    joined: Joined,
    welcomeHash: Uint8Array,
    delivered: DeliverWelcome,
  ): Promise<WelcomeUse> {
    const { context, channels, requests } = this.#agent
    const { channel: id, name, owner } = join.record
    const nowhere = { index: 0, hash: new Uint8Array(), slot: 0 }
    const adder = { addedBy: toHex(joined.signer.agentId) }
    const channel = channels.hold(newChannel(id, name, owner, 'joining', nowhere, adder))
    const joins = this.#open.of(channel)
    for (const each of joins) this.#open.noteState(each)
    try {
      await requests.ask(resumeOf([fromHex(id)]), ({ channels: [state] }) => {
        const start = startOf(state)
        if (start.index !== indexOf(delivered)) throw new Superseded()
        channel.enter(joined, 'joining', start, welcomeHash)
        const { show } = join.record
        if (show !== undefined) channel.proving.showing.choose({ show })
        this.#entered.add(id)
        if (join.record.takenBack) this.#open.change(join, { takenBack: false })
        for (const each of joins) this.#open.noteState(each)
        if (state) channel.intake.answered(state)
      })
      return 'entered'
    } catch (error) {
      wipeEpoch(context.engine, joined)
      const reason = StaticError.from(error)
      const isUnusable = error instanceof Superseded || reason.code === 'invalid_welcome'
      // Must come before the channel is dropped: an agent with a Welcome does not ask for another.
      if (!isUnusable) this.#enterLater(join, delivered, reason)
      channels.drop(channel, undefined)
      if (!isUnusable) return 'later'
      if (error instanceof Superseded) return 'nothing'
      throw reason
    }
  }

  /** The relay does not let this agent use a Welcome yet. It delivers the Welcome again in the next session. */
  #enterLater(join: Join, delivered: DeliverWelcome, error: StaticError): void {
    const { context } = this.#agent
    this.#failIfFatal(join, error)
    if (this.#stopped || join.entries === MOST_ENTRIES) return
    const waitMs = retryEntryMs(join.entries++)
    context.emit({ type: 'throttled', channel: join.record.name, error, waitMs })
    join.cancelEntry?.()
    const cancel = context.later(waitMs, () => {
      join.cancelEntry = undefined
      void this.welcomed(delivered)
    })
    join.cancelEntry = () => {
      join.cancelEntry = undefined
      cancel()
    }
  }

  /**
   * Whether a Welcome waits for the end of an earlier membership. A channel that is offered or being joined is
   * replaced.
   */
  #holdIfEarlier(join: Join, delivered: DeliverWelcome): boolean {
    const earlier = this.#agent.channels.get(join.record.channel)
    const isCurrent = earlier === this.#open.enteredChannel(join)
    if (earlier?.name !== join.record.name || earlier.state === 'offered' || isCurrent) return false
    return this.#agent.held.hold(earlier, delivered)
  }

  /** Only for its own channel: the index of another channel would skip entries of this one. */
  #acknowledge(delivered: DeliverWelcome): void {
    this.#agent.context.deliveries.acknowledge(toHex(delivered.channelId), indexOf(delivered))
  }

  // ---- Greeting ----

  /** Says hello and repeats it, because an owner that restarts before answering forgets the hello. */
  #sayHello(join: Join): void {
    const channel = this.#open.enteredChannel(join)
    if (!channel) return
    const sent = sendHello(channel, join).then((isSent) => isSent && this.#sayHelloLater(join, channel))
    sent.catch((error: unknown) => {
      if (this.#failIfFatal(join, StaticError.from(error))) return
      // The relay refuses the hello, for example because the channel is full.
      if (channel === this.#open.enteredChannel(join)) this.#sayHelloLater(join, channel)
    })
  }

  #sayHelloLater(join: Join, channel: AgentChannel): void {
    const waitMs = helloDelayMs(join.hellos++, channel.group?.members.size ?? 0)
    this.#stepLater(join, channel, waitMs)
  }

  // ---- After an offer ----

  /**
   * This agent joined by an offer, so a member acting on its request would remove it in order to add it again. A member
   * that already has the request may do so: the request is kept, so that the Welcome can be opened.
   */
  #withdraw(join: Join): void {
    if (!join.record.takenBack) this.#open.change(join, { takenBack: true })
    if (!this.#asking.info) return
    const { session, agentId } = this.#agent.context
    // Repeated in every session.
    session.request({ case: 'answerJoin', value: withdrawalOf(join.keys, agentId) }, () => {})
  }

  /**
   * This agent joined by an offer and is out again. If it was removed in order to be added by its request, the Welcome
   * follows no later than the answer to a Resume. Time without a session does not count: the next session restarts the
   * wait.
   */
  #dropAfterLateWelcome(join: Join): void {
    const { info } = this.#asking
    const { context, channels } = this.#agent
    const { channel } = join.record
    const isOut = (): boolean => {
      const hasWelcome = this.#checking.has(channel) || this.#open.hasWelcome(join)
      return this.#open.stateOf(join) === 'dropping' && !hasWelcome && !channels.get(channel)
    }
    const wait = (then: () => void): void => {
      context.later(LATE_WELCOME_MS, () => {
        if (this.#asking.info === info && !context.offline && isOut()) then()
      })
    }
    // Deferred, because acknowledgements still pending for the earlier membership would count for the Welcome's.
    wait(() => {
      context.session.request(resumeOf([fromHex(channel)]), (outcome) => {
        if (outcome.type === 'refused') this.#stepLater(join, undefined, retryDelay(outcome.error.retryAfterMs))
        if (outcome.type === 'answered') wait(() => this.#open.end(join, 'left'))
      })
    })
  }

  // ---- Ends ----

  #expire(join: Join): void {
    this.#refuse(join, StaticError.of('invite_expired'))
  }

  /** Refused permanently: the token cannot be used again. */
  #refuse(join: Join, error: StaticError): void {
    if (isEntered(this.#open.noteState(join))) return
    this.#open.end(join, 'refused')
    this.#open.fail(join, error)
  }

  /** The owner decides about the key, so the error tells this agent's application what to send to the owner. */
  #identityRefused({ name }: AttemptRecord): StaticError {
    const problem = `The owner of channel ${name} knows this agent's identity with a different key and decides which key is valid.`
    const command = `static channel accept-new-key ${name} IDENTITY ${this.#agent.context.agentId}`
    const remedy = `To accept yours, the owner runs \`${command}\`; then join again with the same token. Or use another identity.`
    return StaticError.of('identity_changed', `${problem} ${remedy}`)
  }

  /** Rejects the waiting calls if a new session does not resolve the error. Returns whether it did. */
  #failIfFatal(join: Join, error: StaticError): boolean {
    const isFatal = FATAL.has(error.code)
    if (isFatal) this.#open.fail(join, error)
    return isFatal
  }
}

/** How long an agent waits before its next attempt to enter, after `repeats` earlier attempts. */
function retryEntryMs(repeats: number): number {
  return Math.min(FIRST_ENTRY_MS * 2 ** repeats, LONGEST_ENTRY_MS)
}

/** No agent that can admit joiners has answered. */
function noAnswer({ admit }: AttemptRecord, timeoutMs: number): StaticError {
  const isOwner = admit === 'owner'
  const who = isOwner ? 'The owner of the channel did not answer' : 'No member of the channel answered'
  const fix = `${isOwner ? 'The owner' : 'A member'} must be running with an API key. Then use the same token again.`
  return StaticError.of('join_timeout', `${who} within ${timeoutMs / 1000} seconds. ${fix}`)
}
