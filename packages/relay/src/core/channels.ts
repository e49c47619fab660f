/** What agents do in channels. Fields and signatures are checked here; everything else the store decides. */
import {
  declarationBytes,
  ENVELOPE_LIMITS,
  isChannelName,
  leaveBytes,
  MAX_KEY_PACKAGES,
  MAX_MEMBERS,
  maxCommitBytes,
  MESSAGE_ID_BYTES,
  PUBLIC_KEY_BYTES,
  SIGNATURE_BYTES,
  StaticError,
  toHex,
} from '@static/protocol'
import {
  type AckRequest,
  type AddMemberRequest,
  type CreateChannelRequest,
  type DeleteChannelRequest,
  type LeaveNotice,
  type LeaveRequest,
  type LiftBarRequest,
  type RejectCommitRequest,
  type ResumeRequest,
  type SendCommitRequest,
  type SendMessageRequest,
  type SendWelcomeRequest,
  type UploadKeyPackageRequest,
  type Welcome,
} from '@static/protocol/relay'
import type {
  Account,
  Actor,
  AgentId,
  ChannelId,
  Refusal,
  Request as StoreRequest,
  Result,
  WelcomeFields,
} from '../ports.ts'
import type { Settings } from '../settings.ts'
import type { Delivery } from './delivery.ts'
import type { Effects } from './effects.ts'
import type { Crypto, Outcome } from './io.ts'
import { readKeyPackage } from './key-package.ts'
import { KeyPackages } from './key-packages.ts'
import { type Body, refusalOf, serverMessage, wireStanding } from './messages.ts'
import type { Quota, Unit } from './quota.ts'
import { Rates } from './rates.ts'
import { accountOf, agentIdOf, channelIdOf, numberOf, wrong } from './request-fields.ts'
import type { Request, Session } from './stream.ts'

const MAX_KEY_PACKAGE_BYTES = 16_384
const LOW_KEY_PACKAGES = 8
const CLOCK_SKEW_MS = 3_600_000
/** How long the loser of a slot waits: a random share of this for each that lost lately, so that one of them wins. */
const LOSER_MS = 150
const LOSERS_MEMORY_MS = 1000

/** The channel operations of one node. */
export class Channels {
  readonly #effects: Effects
  readonly #crypto: Crypto
  readonly #settings: Settings
  readonly #delivery: Delivery
  readonly #quota: Quota
  readonly keyPackages: KeyPackages
  readonly #commits: Rates
  readonly #claims: Rates
  readonly #claimed: Rates
  readonly #uploads: Rates
  readonly #resumes: Rates
  /** Who pays for the guests of a channel, once the store has told. */
  readonly #payers = new Map<ChannelId, Account>()
  readonly #losers = new Map<ChannelId, { count: number; since: number }>()

  constructor(effects: Effects, crypto: Crypto, settings: Settings, delivery: Delivery, quota: Quota) {
    this.#effects = effects
    this.#crypto = crypto
    this.#settings = settings
    this.#delivery = delivery
    this.#quota = quota
    const { rates, counts } = settings
    this.keyPackages = new KeyPackages(counts.keyPackageAgents)
    this.#commits = new Rates(rates.commitsPerSecond, rates.commitsBurst)
    this.#claims = new Rates(rates.claimsPerMinute / 60, rates.claimsPerMinute)
    this.#claimed = new Rates(rates.claimsPerTargetPerMinute / 60, rates.claimsPerTargetPerMinute)
    this.#uploads = new Rates(rates.uploadsPerMinute / 60, rates.uploadsPerMinute)
    this.#resumes = new Rates(rates.resumedPerMinute / 60, rates.resumedPerMinute)
  }

  create(request: Request, value: CreateChannelRequest): void {
    const account = accountOf(request)
    const { name } = value
    if (!isChannelName(name)) throw StaticError.of('channel_error')
    if (value.welcome.length === 0 || value.welcome.length > maxCommitBytes(1))
      throw wrong('welcome has at most 18 KiB')
    const channel = channelIdOf(value.channelId)
    const store: StoreRequest<'create'> = {
      actor: { agent: request.caller.agent, account },
      channel,
      name,
      welcome: value.welcome,
      guestLimit: value.guestLimit ?? this.#settings.guestLimit,
      maxChannels: this.#settings.counts.channelsPerAccount,
      now: this.#effects.now,
    }
    this.#effects.store('create', store, (outcome) => {
      const result = accepted(request, outcome)
      if (!result) return
      this.becameMember(request.caller.agent)
      request.answer({
        case: 'createChannel',
        value: { $typeName: 'static.relay.v1.CreateChannelResponse', channelId: value.channelId, ...result },
      })
    })
  }

  delete(request: Request, { channel }: DeleteChannelRequest): void {
    const account = accountOf(request)
    const id = channel.case === 'channelId' ? channelIdOf(channel.value) : undefined
    const name = channel.case === 'name' ? channel.value : undefined
    this.#effects.store('delete', { account, channel: id, name }, (outcome) => {
      if (!accepted(request, outcome)) return
      request.answer({ case: 'deleteChannel', value: { $typeName: 'static.relay.v1.DeleteChannelResponse' } })
    })
  }

  upload(request: Request, { keyPackages }: UploadKeyPackageRequest): void {
    const account = accountOf(request)
    const { agent, publicKey } = request.caller
    const { now } = this.#effects
    const wait = this.#uploads.take(agent, now)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    if (keyPackages.length === 0 || keyPackages.length > MAX_KEY_PACKAGES) throw wrong('1 to 64 KeyPackages are sent')
    const read = keyPackages.map((bytes) => {
      const facts = bytes.length > MAX_KEY_PACKAGE_BYTES ? undefined : readKeyPackage(bytes)
      if (!facts) throw wrong('every KeyPackage is an MLSMessage with a KeyPackage of the one suite, at most 16 KiB')
      if (!this.#crypto.equal(facts.signatureKey, publicKey)) throw wrong("every KeyPackage has this agent's key")
      const { notBefore, notAfter } = facts
      if (notAfter * 1000 <= now || notBefore > notAfter || notBefore * 1000 > now + CLOCK_SKEW_MS) {
        throw wrong('every KeyPackage is good now')
      }
      // Copied: the bytes are a view of the whole request.
      return { bytes: new Uint8Array(bytes), hash: toHex(this.#crypto.hash(bytes)), notAfter: notAfter * 1000 }
    })
    for (const loser of this.keyPackages.add(account, agent, read)) this.#tellLow(loser)
    const held = this.keyPackages.held(agent, now)
    request.answer({
      case: 'uploadKeyPackage',
      value: { $typeName: 'static.relay.v1.UploadKeyPackageResponse', held },
    })
  }

  add(request: Request, value: AddMemberRequest): void {
    accountOf(request)
    const channel = channelIdOf(value.channelId)
    const agent = agentIdOf(value.agentId)
    const actor = actorOf(request)
    this.#effects.store('check', { actor, channel }, (outcome) => {
      if (!accepted(request, outcome)) return
      const { now } = this.#effects
      // One that may not claim does not use up what others may claim of this agent.
      const wait = this.#claims.take(actor.agent, now) || this.#claimed.take(agent, now)
      if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
      const keyPackage = this.keyPackages.take(agent, now)
      if (!keyPackage) return request.refuse({ refused: 'key_package_unavailable' })
      request.answer({ case: 'addMember', value: { $typeName: 'static.relay.v1.AddMemberResponse', keyPackage } })
      this.#tellLow(agent)
    })
  }

  commit(request: Request, value: SendCommitRequest): void {
    const { declaration } = value
    const channel = channelIdOf(value.channelId)
    if (value.messageId.length !== MESSAGE_ID_BYTES) throw wrong('message_id has 16 bytes')
    if (value.commit.length === 0) throw wrong('commit is not empty')
    if (!declaration) throw wrong('declaration is there')
    // Before the work that it costs.
    const { now } = this.#effects
    const wait = this.#commits.take(request.caller.agent, now)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    const { adds, removes, leaveNotices } = declaration
    if (Math.max(adds.length, removes.length, leaveNotices.length, value.welcomes.length) > MAX_MEMBERS) {
      throw wrong(`at most ${MAX_MEMBERS} agents are named`)
    }
    for (const id of [...declaration.adds, ...declaration.removes]) agentIdOf(id)
    declaration.leaveNotices.forEach(checkNotice)
    const commitHash = this.#crypto.hash(value.commit)
    const place = { channelId: value.channelId, slot: value.slot, messageId: value.messageId, commitHash }
    const signed = declarationBytes(place, declaration)
    if (!this.#crypto.verify(request.caller.publicKey, signed, declaration.signature)) {
      throw wrong('the declaration is signed by the sender of the commit')
    }
    const store: StoreRequest<'commit'> = {
      actor: actorOf(request),
      channel,
      slot: numberOf(value.slot, 'slot'),
      messageId: value.messageId,
      commit: value.commit,
      declaration,
      welcomes: value.welcomes.map(welcomeFields),
      now,
    }
    this.#effects.store('commit', store, (outcome) => {
      if (outcome.ok && 'refused' in outcome.value && outcome.value.refused === 'epoch_mismatch') {
        return request.refuse({ ...outcome.value, retryAfterMs: this.#loserWait(channel) })
      }
      const result = accepted(request, outcome)
      if (!result) return
      request.answer({
        case: 'sendCommit',
        value: {
          $typeName: 'static.relay.v1.SendCommitResponse',
          index: BigInt(result.index),
          head: BigInt(result.head),
        },
      })
    })
  }

  reject(request: Request, value: RejectCommitRequest): void {
    const store = {
      actor: actorOf(request),
      channel: channelIdOf(value.channelId),
      slot: numberOf(value.slot, 'slot'),
    }
    this.#effects.store('reject', store, (outcome) => {
      const result = accepted(request, outcome)
      if (!result) return
      request.answer({ case: 'rejectCommit', value: { $typeName: 'static.relay.v1.RejectCommitResponse', ...result } })
    })
  }

  liftBar(request: Request, value: LiftBarRequest): void {
    accountOf(request)
    const store = {
      actor: actorOf(request),
      channel: channelIdOf(value.channelId),
      agent: agentIdOf(value.agentId),
    }
    this.#effects.store('liftBar', store, (outcome) => {
      if (!accepted(request, outcome)) return
      request.answer({ case: 'liftBar', value: { $typeName: 'static.relay.v1.LiftBarResponse' } })
    })
  }

  welcome(request: Request, value: SendWelcomeRequest): void {
    const channel = channelIdOf(value.channelId)
    if (!value.welcome) throw wrong('welcome is there')
    const wait = this.#commits.take(request.caller.agent, this.#effects.now)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    const store = {
      actor: actorOf(request),
      channel,
      slot: numberOf(value.slot, 'slot'),
      welcome: welcomeFields(value.welcome),
    }
    this.#effects.store('welcome', store, (outcome) => {
      if (!accepted(request, outcome)) return
      request.answer({ case: 'sendWelcome', value: { $typeName: 'static.relay.v1.SendWelcomeResponse' } })
    })
  }

  leave(request: Request, { channelId, notice }: LeaveRequest): void {
    const channel = channelIdOf(channelId)
    if (!notice) throw wrong('notice is there')
    checkNotice(notice)
    const { caller } = request
    if (!this.#crypto.equal(notice.publicKey, caller.publicKey)) throw wrong('the notice is of the agent that leaves')
    if (!this.#crypto.verify(notice.publicKey, leaveBytes(channelId, notice.slot), notice.signature)) {
      throw wrong('the notice is signed by the agent that leaves')
    }
    numberOf(notice.slot, 'slot')
    const { now } = this.#effects
    this.#effects.store('leave', { actor: actorOf(request), channel, notice, now }, (outcome) => {
      const result = accepted(request, outcome)
      if (!result) return
      request.answer({
        case: 'leave',
        value: { $typeName: 'static.relay.v1.LeaveResponse', index: BigInt(result.index) },
      })
    })
  }

  send(request: Request, value: SendMessageRequest): void {
    const { account } = request.caller
    const message: Omit<StoreRequest<'append'>, 'paid'> = {
      actor: actorOf(request),
      channel: channelIdOf(value.channelId),
      slot: numberOf(value.slot, 'slot'),
      messageId: value.messageId,
      counter: numberOf(value.counter, 'counter'),
      control: value.control,
      ciphertext: value.ciphertext,
      now: this.#effects.now,
    }
    if (value.messageId.length !== MESSAGE_ID_BYTES) throw wrong('message_id has 16 bytes')
    const payer = account ?? this.#payers.get(message.channel)
    // Also for what may be free: one way for all keeps an agent's messages in order while a lease is asked for.
    if (payer) this.#pay(request, message, payer)
    else this.#append(request, message, undefined)
  }

  /** With a unit of the payer's quota, or, if there is none, to hear whether anything else is in the way. */
  #pay(request: Request, message: Omit<StoreRequest<'append'>, 'paid'>, payer: Account): void {
    this.#quota.take(payer, (taken) => {
      if ('refused' in taken) this.#append(request, message, undefined, taken)
      else this.#append(request, message, taken)
    })
  }

  #append(
    request: Request,
    message: Omit<StoreRequest<'append'>, 'paid'>,
    unit: Unit | undefined,
    noUnit?: Refusal,
  ): void {
    this.#effects.store('append', { ...message, paid: unit !== undefined }, (outcome) => {
      const result = accepted(request, outcome)
      if (!result) return unit?.release()
      if ('unpaid' in result) {
        if (!request.caller.account) this.#rememberPayer(message.channel, result.unpaid)
        if (noUnit) return request.refuse(noUnit)
        return this.#pay(request, message, result.unpaid)
      }
      if (result.charged) unit?.use()
      else unit?.release()
      request.answer({
        case: 'sendMessage',
        value: { $typeName: 'static.relay.v1.SendMessageResponse', index: BigInt(result.index) },
      })
    })
  }

  /** Tells where the agent stands and starts the deliveries from there. */
  resume(request: Request, session: Session, value: ResumeRequest): void {
    const asked = this.#asked(request, value)
    if (asked) this.#resume(request, session, asked)
  }

  /** Where the caller stands, without deliveries: for unary calls. */
  standings(request: Request, value: ResumeRequest): void {
    const asked = this.#asked(request, value)
    if (!asked) return
    this.#effects.store('resume', asked, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      request.answer(standingsAnswer(outcome.value))
    })
  }

  #resume(request: Request, session: Session, asked: StoreRequest<'resume'>): void {
    const { agent } = session
    this.storeAcknowledged(session)
    const meanwhile = this.#delivery.resuming(agent)
    this.#effects.store('resume', asked, (outcome) => {
      this.#delivery.answered(meanwhile)
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      // What the store told is from before: the agent would take the end of a stay for the end of the next one.
      if (meanwhile.added) return this.#resume(request, session, asked)
      const { standings, member } = outcome.value
      if (member) this.becameMember(agent)
      request.answer(standingsAnswer(outcome.value))
      // Replaced meanwhile: the newer session resumes by itself.
      if (this.#delivery.session(agent) !== session) return
      if (!session.resumed) {
        session.resumed = true
        this.#delivery.welcomed(session)
      }
      for (const standing of standings) {
        if ('refused' in standing) continue
        if (!session.account) this.#rememberPayer(standing.channel, standing.payer)
        this.#delivery.start(session, standing, meanwhile.reached.get(standing.channel))
      }
    })
  }

  /** What to ask the store for; undefined when the request was refused. Each channel costs, whoever names it. */
  #asked(request: Request, { channelIds, after }: ResumeRequest): StoreRequest<'resume'> | undefined {
    const { resumedChannels: limit } = this.#settings.counts
    if (channelIds.length > limit) throw wrong(`at most ${limit} channels are resumed at once`)
    const { agent } = request.caller
    const { now } = this.#effects
    const cost = Math.max(1, channelIds.length)
    const wait = this.#resumes.take(agent, now, cost) || this.#resumes.take(request.stream.address, now, cost)
    if (wait > 0) {
      request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
      return undefined
    }
    const channels = channelIds.length === 0 ? undefined : [...new Set(channelIds.map(channelIdOf))]
    return { agent, channels, after: after.length === 0 ? undefined : channelIdOf(after), limit }
  }

  /** Moves cursors; `answered` is called unless more is acknowledged than was sent. */
  acknowledge(agent: AgentId, { positions }: AckRequest, answered: (outcome: Outcome<unknown>) => void): void {
    this.#effects.store('ack', { agent, positions: this.#delivered(agent, positions) }, answered)
  }

  /**
   * The same without an answer, at the next tick: a flush to disk for each would cost more than the messages, and an
   * acknowledgement that is lost only repeats a delivery.
   */
  acknowledgeLater({ agent, acknowledged }: Session, { positions }: AckRequest): void {
    for (const { channel, index } of this.#delivered(agent, positions)) {
      acknowledged.set(channel, Math.max(index, acknowledged.get(channel) ?? 0))
    }
  }

  /** Stores what a session has acknowledged. */
  storeAcknowledged({ agent, acknowledged }: Session): void {
    if (acknowledged.size === 0) return
    const positions = [...acknowledged].map(([channel, index]) => ({ channel, index }))
    acknowledged.clear()
    // A cursor that the store could not move moves with the next acknowledgement.
    this.#effects.store('ack', { agent, positions }, () => {})
  }

  /** Only what was delivered is acknowledged. */
  #delivered(agent: AgentId, positions: AckRequest['positions']): { channel: ChannelId; index: number }[] {
    return positions.map(({ channelId, index }) => {
      const channel = channelIdOf(channelId)
      const upTo = numberOf(index, 'index')
      if (upTo > this.#delivery.sentTo(agent, channel)) throw wrong('only what was delivered is acknowledged')
      return { channel, index: upTo }
    })
  }

  /** The channel is gone: so is who pays for its guests. */
  forget(channel: ChannelId): void {
    this.#payers.delete(channel)
    this.#losers.delete(channel)
  }

  tick(): void {
    for (const session of this.#delivery.sessions()) this.storeAcknowledged(session)
    for (const [channel, { since }] of this.#losers) {
      if (this.#effects.now - since > LOSERS_MEMORY_MS) this.#losers.delete(channel)
    }
  }

  #rememberPayer(channel: ChannelId, account: Account): void {
    // A cache: losing it costs one question to the store.
    if (this.#payers.size >= 100_000) this.#payers.clear()
    this.#payers.set(channel, account)
  }

  /** Members may send longer envelopes. */
  becameMember(agent: AgentId): void {
    const session = this.#delivery.session(agent)
    if (session) this.#effects.limit(session.stream.id, ENVELOPE_LIMITS.member)
  }

  #loserWait(channel: ChannelId): number {
    const { now } = this.#effects
    const known = this.#losers.get(channel)
    const losers = known && now - known.since <= LOSERS_MEMORY_MS ? known : { count: 0, since: now }
    losers.count++
    this.#losers.set(channel, losers)
    const [a = 0, b = 0] = this.#crypto.random(2)
    return 1 + ((a * 256 + b) / 65_536) * LOSER_MS * losers.count
  }

  #tellLow(agent: AgentId): void {
    const held = this.keyPackages.held(agent, this.#effects.now)
    const session = this.#delivery.session(agent)
    if (!session || held >= LOW_KEY_PACKAGES) return
    const value = { $typeName: 'static.relay.v1.KeyPackagesLow', held } as const
    this.#effects.send([session.stream.id], serverMessage({ case: 'keyPackagesLow', value }))
  }
}

function standingsAnswer({ standings, more }: Result<'resume'>): Body {
  return {
    case: 'resume',
    value: { $typeName: 'static.relay.v1.ResumeResponse', channels: standings.map(wireStanding), more },
  }
}

function actorOf({ caller: { agent, account } }: Request): Actor {
  return { agent, account }
}

/** What the store did; otherwise the request has been refused. */
function accepted<Value extends object>(
  request: Request,
  outcome: Outcome<Value | Refusal>,
): Exclude<Value, Refusal> | undefined {
  if (!outcome.ok) request.refuse(refusalOf(outcome.error))
  else if ('refused' in outcome.value) request.refuse(outcome.value)
  else return outcome.value as Exclude<Value, Refusal>
  return undefined
}

function welcomeFields({ agentId, welcome, inviteId, tag }: Welcome): WelcomeFields {
  if (welcome.length === 0) throw wrong('a Welcome is not empty')
  if (inviteId.length !== 0 && inviteId.length !== 16) throw wrong('invite_id has 16 bytes')
  if (tag.length > 32) throw wrong('tag has at most 32 bytes')
  return { agent: agentIdOf(agentId), welcome, inviteId, tag }
}

function checkNotice({ publicKey, signature }: LeaveNotice): void {
  if (publicKey.length !== PUBLIC_KEY_BYTES) throw wrong('public_key has 32 bytes')
  if (signature.length !== SIGNATURE_BYTES) throw wrong('signature has 64 bytes')
}
