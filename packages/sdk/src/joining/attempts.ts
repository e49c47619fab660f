/**
 * The joiner's side of invites (SPEC.md, 6.3). A request is stored before it is sent and is sent again in every
 * session, so a join continues with the same token after a timeout or a crash. A Welcome is accepted only if it was made
 * for this request with the invite's keys, the owner's leaf has signed it, and the owner answers this agent's hello; if
 * members may admit, another member may do both, and the owner's leaf must show that the owner has committed.
 */
import { type ErrorCode, ERRORS, fromHex, StaticError, toHex } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import { resumeOf } from '../agent/deliveries.ts'
import { leaveChannel } from '../agent/leaving.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { KeyedMutex } from '../mls/index.ts'
import type { AgentId, AttemptRecord, ChannelId, SessionInfo } from '../ports/index.ts'
import { refusalError, retryDelay } from '../ports/refusal.ts'
import {
  type Attempt,
  FATAL,
  lastMoment,
  LATE_WELCOME_MS,
  MOST_ENTRIES,
  outcomeOf,
  REPORTED_WAIT_MS,
  retryEntryMs,
} from './attempt.ts'
import { Entries } from './entries.ts'
import { checkName, heldChannel } from './held-channel.ts'
import { helloDelayMs, isAmong, sendHello } from './hello.ts'
import { JOIN_NONCE_BYTES, requestOf, withdrawalOf } from './request.ts'
import { inviteKeys } from '../admitting/keys.ts'
import { OpenAttempts } from './open-attempts.ts'
import { decodeToken, invalid, type InviteToken } from '../admitting/token.ts'

/** The joins by token that are in progress. */
export class JoinAttempts {
  readonly #agent: AgentServices
  readonly #relay: string
  readonly #attempts: OpenAttempts
  readonly #entries: Entries
  /** The joins of a channel share one request, so each waits for the one that another makes. */
  readonly #requests = new KeyedMutex()
  #info: SessionInfo | undefined
  #stopped = false

  /** `relay` is the relay's name. */
  constructor(agent: AgentServices, relay: string) {
    this.#agent = agent
    this.#relay = relay
    this.#attempts = new OpenAttempts(agent)
    this.#entries = new Entries(agent, this.#attempts, (...deferred) => this.#enterLater(...deferred))
  }

  /**
   * Joins with a token. Resolves once the owner has answered this agent's hello.
   *
   * @throws {StaticError} `invite_*`, `join_timeout`, `invalid_welcome`, `channel_exists`, `identity_changed`,
   *   `group_full`
   */
  async join(name: string, text: string, timeoutMs: number): Promise<AgentChannel> {
    const token = decodeToken(text)
    if (token.name !== name) invalid(`The invite token is for channel ${token.name}, not ${name}.`)
    if (token.relay !== this.#relay) {
      invalid(
        `The invite token is for relay ${token.relay}, but this agent uses ${this.#relay}. Connect to ${token.relay}.`,
      )
    }
    const { context } = this.#agent
    const until = context.now() + timeoutMs
    const held = await heldChannel(this.#agent, token, timeoutMs, (entered) => this.#attempts.isAbandoned(entered))
    if (held) return held
    const invite = toHex(inviteKeys(token.secret).inviteId)
    const known = this.#attempts.get(invite)
    const begin = async (): Promise<Attempt> => this.#attempts.get(invite) ?? (await this.#begin(token))
    const attempt = known ?? (await this.#requests.run(name, begin))
    // Meanwhile, by another token or an offer.
    const joined = this.#attempts.held(attempt, 'joined')
    if (joined) return joined
    if (this.#isOver(attempt)) {
      this.#attempts.drop(attempt)
      throw StaticError.of('invite_expired')
    }
    // The relay may have forgotten the earlier request, or this agent has taken it back.
    if (known) {
      if (known.record.takenBack) this.#attempts.change(known, { takenBack: false })
      this.#proceed(known)
    }
    if (this.#stopped) throw StaticError.of('closed')
    return await outcomeOf(attempt, timeoutMs, until, context)
  }

  /** A session is open: pending requests are sent again. */
  opened(info: SessionInfo): void {
    this.#info = info
    for (const held of this.#agent.channels)
      if (this.#attempts.isAbandoned(held)) leaveChannel(this.#agent, held).catch(() => {})
    for (const attempt of this.#attempts) {
      // The relay delivers a Welcome that waits again.
      attempt.cancelEntry?.()
      attempt.entries = 0
      this.#proceed(attempt)
    }
  }

  /**
   * Handles a Welcome for a request of this agent; returns undefined if it is for none. Anyone who knows the id of an invite can
   * name it, but only who has read the request knows the KeyPackage.
   */
  welcomed(delivered: DeliverWelcome): Promise<void> | undefined {
    const { inviteId = new Uint8Array(), welcome = new Uint8Array() } = delivered.welcome ?? {}
    const { keyPackages } = this.#agent
    const named = keyPackages.named(welcome)
    // Tokens to one channel share a request.
    const asked = [...this.#attempts].filter(({ record: own }) =>
      named.some((one) => same(one.keyPackage, own.keyPackage)),
    )
    const attempt = asked.find(({ record }) => record.invite === toHex(inviteId)) ?? asked[0]
    if (!attempt) return undefined
    return this.#entries.enter(attempt, delivered).then(
      (entry) => {
        if (entry !== 'entered') return
        for (const { cancelEntry } of asked) cancelEntry?.()
        this.#proceed(attempt)
      },
      (error: unknown) => {
        const refused = StaticError.from(error)
        // A member has read the request, added this agent and kept it out: the owner adds it again with a new KeyPackage.
        // The same if another channel has the name.
        const isBad = refused.code === 'invalid_welcome' && asked.some(({ record }) => record.admit === 'members')
        const isOut = refused.code === 'channel_exists' && !this.#agent.channels.get(attempt.record.channel)
        const isSpoilt = isBad && keyPackages.has(attempt.record.keyPackage)
        if (isBad || isOut) keyPackages.forget(attempt.record.keyPackage)
        this.#agent.context.emit({ type: 'welcome_refused', channel: attempt.record.name, error: refused })
        this.#fail(attempt, refused)
        // The relay has the spoilt request still: whoever acted on it would add this agent in vain.
        if (isSpoilt) for (const each of asked) this.#askLater(each)
      },
    )
  }

  /** Handles the owner's refusal of a request. */
  refused(inviteId: Uint8Array, code: string): void {
    const attempt = this.#attempts.get(toHex(inviteId))
    if (!attempt) return
    const isKnown = Object.hasOwn(ERRORS, code)
    this.#refuse(
      attempt,
      code === 'identity_changed'
        ? this.#identityRefused(attempt.record)
        : StaticError.of(isKnown ? (code as ErrorCode) : 'invite_invalid'),
    )
  }

  /** Handles the answer to a hello, by the owner or the member that has added this agent: it has joined. */
  greeting(channel: AgentChannel, sender: AgentId, nonces: Uint8Array): void {
    const attempts = this.#attempts.of(channel)
    const mayGreet = ({ admit }: AttemptRecord): boolean =>
      sender === channel.owner || (admit === 'members' && sender === channel.standing.record.offeredBy)
    if (!attempts.some(({ record }) => mayGreet(record) && isAmong(record.nonce, nonces))) return
    channel.become('joined')
    // Attempts with other tokens for the channel have succeeded, too.
    for (const attempt of attempts) {
      this.#attempts.drop(attempt)
      for (const { resolve } of attempt.waiting) resolve(channel)
    }
  }

  /** This agent has joined a channel by an offer: the calls that wait get it, and what was asked for is taken back. */
  accepted(id: ChannelId): void {
    for (const attempt of this.#attempts.on(id)) {
      const joined = this.#attempts.held(attempt, 'joined')
      if (!joined) continue
      for (const { resolve } of attempt.waiting) resolve(joined)
      this.#proceed(attempt)
    }
  }

  /** The application is about to leave a channel. If it has joined, what was asked for before is over. */
  leaving(channel: AgentChannel): void {
    if (channel.state !== 'joined') return
    for (const attempt of this.#attempts.of(channel)) this.#attempts.drop(attempt)
  }

  /** A channel has failed. If this agent was still joining it, the application has nothing in it, so it leaves. */
  failed(name: string): void {
    const channel = this.#agent.channels.named(name)
    // One that came by an offer may have messages to read.
    if (!channel || this.#attempts.of(channel).every(({ record }) => record.takenBack)) return
    // If this fails, `join` leaves it later.
    queueMicrotask(() => void leaveChannel(this.#agent, channel).catch(() => {}))
  }

  /** A channel is gone, for example because this agent was removed before the greeting: asks again. */
  dropped(id: ChannelId): void {
    const isUsed = this.#entries.ended(id)
    for (const attempt of this.#attempts.on(id)) {
      // Who has heard this agent takes the same request for a replay.
      if (isUsed) this.#agent.keyPackages.forget(attempt.record.keyPackage)
      this.#proceed(attempt)
    }
  }

  stop(): void {
    this.#stopped = true
    for (const attempt of this.#attempts) this.#fail(attempt, StaticError.of('closed'))
  }

  // ---- Steps ----

  async #begin(token: InviteToken): Promise<Attempt> {
    if (token.expiresAt <= this.#agent.context.now()) throw StaticError.of('invite_expired')
    const { name, channelId, owner, secret, expiresAt, admit } = token
    const channel = toHex(channelId)
    // Same request with another token: whichever the owner accepts first, it adds this agent once.
    const [other] = this.#attempts.alike({ channel, name, owner: toHex(owner) })
    const { nonce, keyPackage } = other?.record ?? (await this.#freshRequest())
    const attempt = this.#attempts.begin({
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
    })
    await this.#agent.context.journal.written()
    this.#proceed(attempt)
    return attempt
  }

  async #freshRequest(): Promise<Pick<AttemptRecord, 'nonce' | 'keyPackage'>> {
    const { keyPackage } = await this.#agent.keyPackages.make(false)
    return { nonce: this.#agent.context.random(JOIN_NONCE_BYTES), keyPackage }
  }

  /** The next step: send the request, or say hello. */
  #proceed(attempt: Attempt): void {
    // The owner must not add this agent while it leaves: it asks again when it has left (`dropped`).
    if (this.#agent.channels.get(attempt.record.channel)?.state === 'leaving') return
    const channel = this.#attempts.held(attempt, 'joining')
    if (this.#isOver(attempt)) return this.#refuse(attempt, StaticError.of('invite_expired'))
    if (this.#attempts.held(attempt, 'joined')) return this.#takeBack(attempt)
    if (attempt.record.takenBack && !channel) return this.#dropLater(attempt)
    // Who has already added this agent would remove it to add it again.
    if (!channel && this.#attempts.isWelcomed(attempt)) return
    const step = channel ? this.#sayHello(channel, attempt) : this.#request(attempt)
    step.catch((error: unknown) => {
      const reason = StaticError.from(error)
      if (FATAL.has(reason.code)) this.#fail(attempt, reason)
      // The relay refuses the hello, for example because the channel is full.
      else if (channel && channel === this.#attempts.held(attempt, 'joining')) this.#greetLater(channel, attempt)
    })
  }

  /** Whether the invite has expired before this agent was added. A Welcome of a member may wait at the relay since. */
  #isOver(attempt: Attempt): boolean {
    if (this.#attempts.held(attempt, 'joining') || this.#attempts.isWelcomed(attempt)) return false
    return lastMoment(attempt.record) <= this.#agent.context.now()
  }

  async #request(attempt: Attempt): Promise<void> {
    const { context } = this.#agent
    await this.#requests.run(attempt.record.name, () => this.#renew(attempt))
    const info = this.#info
    const { record } = attempt
    checkName(this.#agent, record.name, record.channel)
    const isIn = (): boolean =>
      (this.#attempts.held(attempt, 'joined') ?? this.#attempts.held(attempt, 'joining')) !== undefined
    if (!info || !this.#attempts.isOpen(attempt) || isIn()) return
    // Neither the relay nor the owner answers a request that has waited until its invite has expired.
    const left = record.expiresAt - context.now()
    const dueMs = left > 0 ? left + LATE_WELCOME_MS : Infinity
    if (left > 0) this.#proceedLater(attempt, undefined, dueMs)
    const value = requestOf(attempt.keys, record, info, context.agentId)
    context.session.request({ case: 'requestJoin', value }, (outcome) => {
      if (outcome.type !== 'refused' || isIn()) return
      const { code, retryAfterMs } = outcome.error
      const error = refusalError(outcome.error)
      if (code !== 'rate_limited' && code !== 'unavailable') return this.#refuse(attempt, error)
      const waitMs = retryDelay(retryAfterMs)
      if (waitMs >= REPORTED_WAIT_MS) context.emit({ type: 'throttled', channel: record.name, error, waitMs })
      this.#proceedLater(attempt, undefined, Math.min(waitMs, dueMs))
    })
  }

  /**
   * Makes another request if the KeyPackage was used by a membership that has ended: again one for all tokens, or who adds
   * this agent by one would put it out to add it by the next.
   */
  async #renew(attempt: Attempt): Promise<void> {
    const { context, keyPackages } = this.#agent
    if (!this.#attempts.isOpen(attempt) || keyPackages.has(attempt.record.keyPackage)) return
    const other = this.#attempts.alike(attempt.record).find(({ record }) => keyPackages.has(record.keyPackage))
    const { nonce, keyPackage } = other?.record ?? (await this.#freshRequest())
    if (!this.#attempts.isOpen(attempt)) return keyPackages.forget(keyPackage)
    this.#attempts.change(attempt, { nonce, keyPackage })
    await context.journal.written()
  }

  /**
   * This agent came by an offer, so whoever acted on its request would remove it to add it again. Who has already got the
   * request may do so: it is kept, so that the Welcome can be opened.
   */
  #takeBack(attempt: Attempt): void {
    if (!attempt.record.takenBack) this.#attempts.change(attempt, { takenBack: true })
    if (!this.#info) return
    const { session, agentId } = this.#agent.context
    // Every session repeats it.
    session.request({ case: 'answerJoin', value: withdrawalOf(attempt.keys, agentId) }, () => {})
  }

  /**
   * This agent came by an offer and is out. If it was removed to be added by its request, the Welcome follows, at the latest
   * after the answer to a Resume. Time without a session does not count: the next one begins again.
   */
  #dropLater(attempt: Attempt): void {
    const info = this.#info
    const { context, channels } = this.#agent
    const { channel } = attempt.record
    const isOut = (): boolean => {
      const hasWelcome = this.#entries.isEntering(channel) || this.#attempts.isWelcomed(attempt)
      return this.#attempts.isOpen(attempt) && attempt.record.takenBack && !hasWelcome && !channels.get(channel)
    }
    const wait = (then: () => void): void => {
      context.later(LATE_WELCOME_MS, () => {
        if (this.#info === info && !context.offline && isOut()) then()
      })
    }
    // Not at once: what is still to be acknowledged of the earlier membership would count for the one of the Welcome.
    wait(() => {
      context.session.request(resumeOf([fromHex(channel)]), (outcome) => {
        if (outcome.type === 'refused') this.#proceedLater(attempt, undefined, retryDelay(outcome.error.retryAfterMs))
        if (outcome.type === 'answered') wait(() => this.#attempts.drop(attempt))
      })
    })
  }

  /** Says hello and repeats it, because an owner that is restarted before it answers forgets the hello. */
  async #sayHello(channel: AgentChannel, attempt: Attempt): Promise<void> {
    if (await sendHello(channel, attempt)) this.#greetLater(channel, attempt)
  }

  #greetLater(channel: AgentChannel, attempt: Attempt): void {
    const waitMs = helloDelayMs(attempt.hellos++, channel.group?.members.size ?? 0)
    this.#proceedLater(attempt, channel, waitMs)
  }

  /** The relay keeps this agent from using a Welcome for the moment. It delivers the Welcome again in the next session. */
  #enterLater(attempt: Attempt, delivered: DeliverWelcome, error: StaticError): void {
    const { context } = this.#agent
    if (FATAL.has(error.code)) this.#fail(attempt, error)
    if (this.#stopped || attempt.entries === MOST_ENTRIES) return
    const waitMs = retryEntryMs(attempt.entries++)
    context.emit({ type: 'throttled', channel: attempt.record.name, error, waitMs })
    attempt.cancelEntry?.()
    const cancel = context.later(waitMs, () => {
      attempt.cancelEntry = undefined
      void this.welcomed(delivered)
    })
    attempt.cancelEntry = () => {
      attempt.cancelEntry = undefined
      cancel()
    }
  }

  /** Asks with a new KeyPackage: not at once, or a member could have it ask forever. */
  #askLater(attempt: Attempt): void {
    const mayAsk = !this.#attempts.held(attempt, 'joining') && attempt.entries < MOST_ENTRIES
    if (mayAsk) this.#proceedLater(attempt, undefined, retryEntryMs(attempt.entries++))
  }

  /** Takes the next step after a time, if it is the same then. */
  #proceedLater(attempt: Attempt, channel: AgentChannel | undefined, waitMs: number): void {
    attempt.cancel?.()
    if (this.#stopped) return
    attempt.cancel = this.#agent.context.later(waitMs, () => {
      if (this.#attempts.isOpen(attempt) && this.#attempts.held(attempt, 'joining') === channel) this.#proceed(attempt)
    })
  }

  // ---- Ends ----

  /** Refused for good: the token cannot be used any more. */
  #refuse(attempt: Attempt, error: StaticError): void {
    if (this.#attempts.held(attempt, 'joining')) return
    this.#attempts.drop(attempt)
    this.#fail(attempt, error)
  }

  /** The owner decides about the key, so this agent's application learns what to send to it. */
  #identityRefused({ name }: AttemptRecord): StaticError {
    const problem = `The owner of channel ${name} knows this agent's identity with a different key, and decides which one is valid.`
    const command = `static channel accept-new-key ${name} IDENTITY ${this.#agent.context.agentId}`
    const remedy = `If yours is, the owner accepts it with \`${command}\`; then join again with the same token. Or use another identity.`
    return StaticError.of('identity_changed', `${problem} ${remedy}`)
  }

  /** Rejects the waiting calls. The same token can be tried again. */
  #fail({ waiting }: Attempt, error: StaticError): void {
    for (const { reject } of waiting) reject(error)
  }
}
