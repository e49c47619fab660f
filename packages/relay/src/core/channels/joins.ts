/**
 * The relay's part in joining with an invite (SPEC.md, "Invites"): it turns away agents without the token, stores
 * requests for a while, and passes them to the agent that created the invite. If members may admit joiners, it keeps
 * requests as long as the invite and passes them to any member with an account. It cannot read their content.
 */
import { create } from '@bufbuild/protobuf'
import {
  AGENT_ID_BYTES,
  fromHex,
  INVITE_ID_BYTES,
  JOIN_REFUSALS,
  joinProofBytes,
  MAX_MEMBERS,
  message,
} from '@static/protocol'
import {
  type AnswerJoinRequest,
  AnswerJoinResponseSchema,
  JoinAnsweredSchema,
  type PollJoinRequestsRequest,
  PollJoinRequestsResponseSchema,
  type RegisterInviteRequest,
  RegisterInviteResponseSchema,
  type RequestJoinRequest,
  RequestJoinResponseSchema,
  type RevokeInviteRequest,
  RevokeInviteResponseSchema,
} from '@static/protocol/relay'
import type { Account, AgentId, ChannelId, Invite, StoreEvent, StoreResult, Time } from '../../ports.ts'
import type { Settings } from '../../settings.ts'
import type { Delivery } from '../delivery.ts'
import type { Effects } from '../effects.ts'
import type { CoreCrypto } from '../io.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import { type Body, refusalOf, serverMessage, tooOften } from '../server-messages.ts'
import { Rates } from '../requests/rates.ts'
import { accountOf, channelIdOf, checkLength, idOf, numberOf, wrong } from '../requests/request-fields.ts'
import type { Stream } from '../sessions/stream.ts'

interface Poll {
  readonly request: PendingRequest
  readonly account: Account
  readonly channel: ChannelId
  readonly limit: number
  /** The number of the last request delivered to the agent. */
  readonly after: number
  /** By the monotonic clock. */
  readonly until: Time
  /** Whether a query to the store is running, and whether another must follow it. */
  asking: boolean
  more: boolean
}

const ADMISSION_KEY_BYTES = 32
const MAX_BOX_BYTES = 16_384
/** The relay cannot check a box key; the agents' have 1,217 bytes. */
const MAX_BOX_KEY_BYTES = 2048
const MAX_INVITE_MS = 366 * 86_400_000
const REQUEST_MS = 600_000
const MAX_WAIT_MS = 60_000
/** Limits of one poll's result: as many requests as a channel can have members, and a number of bytes. */
const MAX_POLLED = MAX_MEMBERS
const MAX_POLLED_BYTES = 1_048_576
/** Pending requests for all invites of an agent. Beyond it, the oldest is dropped: its joiner retries. */
const MAX_PER_OWNER = 1000
/** Pending requests for an invite for members, and the bytes of all such requests in a channel. */
const MAX_FOR_MEMBERS = 64
const MAX_FOR_MEMBERS_BYTES = 2_097_152
/** A request to members counts once per this many bytes of its box. Ours take about 1,600. */
const JOIN_UNIT_BYTES = 2048
/** Concurrent polls per agent. */
const MAX_POLLS = 4
/** The codes of answers. */
const ANSWERS: readonly string[] = JOIN_REFUSALS

export class Joins {
  readonly #effects: Effects
  readonly #crypto: CoreCrypto
  readonly #settings: Settings
  readonly #delivery: Delivery
  readonly #rates: Rates
  /** Registrations and revocations by agent. */
  readonly #changes: Rates
  /** Requests by invite for members: each one goes to all members. */
  readonly #forMembers: Rates
  /** Answers to others by agent. Counted apart: strangers cause them and must not delay a revocation. */
  readonly #answers: Rates
  /** Polls by agent. */
  readonly #pollRates: Rates
  readonly #polls = new Set<Poll>()

  constructor(effects: Effects, crypto: CoreCrypto, settings: Settings, delivery: Delivery) {
    this.#effects = effects
    this.#crypto = crypto
    this.#settings = settings
    this.#delivery = delivery
    const { joinsPerMinute, invitesPerMinute, pollsPerMinute } = settings.rates
    this.#rates = new Rates(joinsPerMinute / 60, joinsPerMinute)
    this.#forMembers = new Rates(joinsPerMinute / 60, joinsPerMinute)
    this.#pollRates = new Rates(pollsPerMinute / 60, pollsPerMinute)
    this.#changes = new Rates(invitesPerMinute / 60, invitesPerMinute)
    this.#answers = new Rates(invitesPerMinute / 60, invitesPerMinute)
  }

  register(request: PendingRequest, value: RegisterInviteRequest): void {
    const account = accountOf(request)
    checkLength(value.admissionKey, ADMISSION_KEY_BYTES, 'admission_key')
    const { now } = this.#effects
    const expiresAt = Number(value.expiresAtMs)
    if (expiresAt <= now || expiresAt > now + MAX_INVITE_MS)
      throw wrong(`\`expires_at_ms\` must be between now, ${now}, and 366 days later, not ${expiresAt}`)
    if (value.maxUses < 1) throw wrong('`max_uses` must be at least 1')
    const { length } = value.boxKey
    if (length > MAX_BOX_KEY_BYTES) throw wrong(`\`box_key\` must be at most ${MAX_BOX_KEY_BYTES} bytes, not ${length}`)
    if (length > 0 && value.members) throw wrong('an invite for members cannot have a `box_key`')
    const invite = {
      id: idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id'),
      channel: channelIdOf(value.channelId),
      // Copied: the bytes are a view of the whole request.
      admissionKey: new Uint8Array(value.admissionKey),
      expiresAt,
      maxUses: value.maxUses,
      members: value.members,
      ...(length > 0 && { boxKey: new Uint8Array(value.boxKey) }),
    }
    if (this.#isTooOften(request)) return
    const actor = { agent: request.caller.agent, account }
    const { invitesPerChannel } = this.#settings.counts
    this.#effects.store('registerInvite', { actor, invite, maxInvites: invitesPerChannel, now }, (outcome) => {
      if (!outcome.ok) request.refuse(refusalOf(outcome.error))
      else if ('refused' in outcome.value) request.refuse(outcome.value)
      else request.answer({ case: 'registerInvite', value: message(RegisterInviteResponseSchema, {}) })
    })
  }

  revoke(request: PendingRequest, value: RevokeInviteRequest): void {
    accountOf(request)
    const id = idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id')
    if (this.#isTooOften(request)) return
    const { now } = this.#effects
    this.#effects.store('revokeInvite', { agent: request.caller.agent, id, now }, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      if ('refused' in outcome.value) return request.refuse(outcome.value)
      request.answer({ case: 'revokeInvite', value: message(RevokeInviteResponseSchema, {}) })
    })
  }

  request(request: PendingRequest, value: RequestJoinRequest): void {
    const id = idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id')
    const { agent, nonce } = request.caller
    if (value.box.length > MAX_BOX_BYTES)
      throw wrong(`\`box\` must be at most ${MAX_BOX_BYTES} bytes, not ${value.box.length}`)
    if (this.#joinsTooOften(request)) return
    const boxHash = this.#crypto.hash(value.box)
    const claim = joinProofBytes({ sessionNonce: nonce, inviteId: value.inviteId, agentId: fromHex(agent), boxHash })
    this.#effects.store('invite', { id, joiner: { agent, now: this.#effects.now } }, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      const { invite, ended, joined, welcomed } = outcome.value
      if (!invite || !this.#crypto.equal(this.#crypto.mac(invite.admissionKey, claim), value.proof)) {
        return request.refuse({ refused: 'invite_invalid' })
      }
      if (value.box.length === 0) return answerBoxKey(request, outcome.value)
      // A retrying agent may already have been added with the last use: its Welcome is on the way.
      if (welcomed === true && (ended || invite.members)) return request.answer(ASKED)
      if (ended) return request.refuse(ended)
      this.#add(request, invite, value.box, joined === true)
    })
  }

  poll(request: PendingRequest, value: PollJoinRequestsRequest): void {
    const account = accountOf(request)
    const until = this.#effects.monotonic + Math.min(value.waitMs, MAX_WAIT_MS)
    const limit = Math.min(value.limit === 0 ? MAX_POLLED : value.limit, MAX_POLLED)
    const { agent } = request.caller
    const open = [...this.#polls].filter((other) => other.request.caller.agent === agent)
    if (open.length >= MAX_POLLS) {
      return request.refuse({
        refused: 'rate_limited',
        message: `This agent has ${MAX_POLLS} polls open, the maximum. Wait for one to return.`,
      })
    }
    const channel = channelIdOf(value.channelId)
    const after = numberOf(value.after, 'after')
    const { pollsPerMinute } = this.#settings.rates
    const wait = this.#pollRates.take(agent, this.#effects.monotonic)
    if (wait > 0) return request.refuse(tooOften(pollsPerMinute, 'polls for join requests', wait))
    const poll = { request, account, channel, limit, after, until, asking: false, more: false }
    this.#polls.add(poll)
    this.#ask(poll, value.waitMs > 0)
  }

  answer(request: PendingRequest, value: AnswerJoinRequest): void {
    const id = idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id')
    const agent = idOf(value.agentId, AGENT_ID_BYTES, 'agent_id')
    // An agent may withdraw its own request, even as a guest.
    const isOwn = agent === request.caller.agent
    if (!isOwn) accountOf(request)
    if (!ANSWERS.includes(value.code)) throw wrong(`\`code\` must be one of ${ANSWERS.join(', ')}`)
    if (isOwn ? this.#joinsTooOften(request) : this.#answersTooOften(request)) return
    const { now } = this.#effects
    const answer = { owner: request.caller.agent, invite: id, agent, code: value.code, now }
    this.#effects.store('answerJoin', answer, (outcome) => {
      if (!outcome.ok) request.refuse(refusalOf(outcome.error))
      else if ('refused' in outcome.value) request.refuse(outcome.value)
      else request.answer({ case: 'answerJoin', value: message(AnswerJoinResponseSchema, {}) })
    })
  }

  /** Handles an event about a waiting or answered request. */
  handle(event: StoreEvent): void {
    if (event.type === 'joinRequested') this.#wake(event.owner, event.channel)
    if (event.type !== 'joinAnswered') return
    const session = this.#delivery.session(event.agent)
    if (!session) return
    const value = message(JoinAnsweredSchema, { inviteId: fromHex(event.inviteId), code: event.code })
    this.#effects.send([session.stream.id], serverMessage({ case: 'joinAnswered', value }))
  }

  /** Drops the polls of a stream that has ended. */
  closed(stream: Stream): void {
    if (stream.requests === 0) return
    for (const poll of this.#polls) {
      if (poll.request.stream !== stream) continue
      poll.request.abandon()
      this.#polls.delete(poll)
    }
  }

  /** Answers all polls immediately, because the relay is about to stop: the agents start again elsewhere. */
  drain(): void {
    for (const poll of this.#polls) this.#give(poll, { joins: [], lastNumber: 0, pending: [] })
  }

  tick(): void {
    const { monotonic: now } = this.#effects
    for (const poll of this.#polls) if (poll.until <= now) this.#ask(poll, false)
  }

  /** Counts a registration or revocation. Refuses it if the agent has made too many. */
  #isTooOften(request: PendingRequest): boolean {
    const wait = this.#changes.take(request.caller.agent, this.#effects.monotonic)
    if (wait === 0) return false
    const { invitesPerMinute } = this.#settings.rates
    request.refuse(tooOften(invitesPerMinute, 'registrations and revocations of invites', wait))
    return true
  }

  /** The same for join requests, made or withdrawn. */
  #joinsTooOften(request: PendingRequest): boolean {
    const wait = this.#rates.take(request.caller.agent, this.#effects.monotonic)
    if (wait === 0) return false
    request.refuse(tooOften(this.#settings.rates.joinsPerMinute, 'join requests per agent', wait))
    return true
  }

  /** The same for answers to the join requests of others. */
  #answersTooOften(request: PendingRequest): boolean {
    const wait = this.#answers.take(request.caller.agent, this.#effects.monotonic)
    if (wait === 0) return false
    request.refuse(tooOften(this.#settings.rates.invitesPerMinute, 'answers to join requests', wait))
    return true
  }

  #add(request: PendingRequest, invite: Invite, box: Uint8Array, joined: boolean): void {
    const { id, channel, agent: owner, members } = invite
    const { now, monotonic } = this.#effects
    const { joinsPerInvite } = this.#settings.counts
    const { joinsPerMinute } = this.#settings.rates
    // Each member downloads the box.
    const cost = Math.min(Math.ceil(box.length / JOIN_UNIT_BYTES), joinsPerMinute)
    const wait = members ? this.#forMembers.take(id, monotonic, cost) : 0
    if (wait > 0) return request.refuse(tooOften(joinsPerMinute, 'join requests with this invite', wait))
    const { agent } = request.caller
    // Copied: the bytes are a view of the whole request.
    const copy = new Uint8Array(box)
    const join = {
      invite: id,
      channel,
      owner: members ? undefined : owner,
      agent,
      box: copy,
      until: untilOf(invite, joined, now),
    }
    const maxPerInvite = members ? Math.min(MAX_FOR_MEMBERS, joinsPerInvite) : joinsPerInvite
    const limits = { maxPerInvite, maxPerOwner: MAX_PER_OWNER, maxBytes: MAX_FOR_MEMBERS_BYTES }
    this.#effects.store('requestJoin', { join, ...limits, now }, (outcome) => {
      if (!outcome.ok) request.refuse(refusalOf(outcome.error))
      else if ('refused' in outcome.value) request.refuse(outcome.value)
      else request.answer(ASKED)
    })
  }

  /** Without an owner, wakes all members that poll. */
  #wake(owner: AgentId | undefined, channel: ChannelId): void {
    for (const poll of this.#polls) {
      const isMeant = owner === undefined || poll.request.caller.agent === owner
      if (poll.channel === channel && isMeant) this.#ask(poll, true)
    }
  }

  /** Queries the store. Without a new request, a poll that may wait keeps waiting. */
  #ask(poll: Poll, mayWait: boolean): void {
    if (poll.asking) {
      poll.more = true
      return
    }
    poll.asking = true
    poll.more = false
    const { request, account, channel, limit, after } = poll
    const { agent } = request.caller
    const limits = { maxRequests: limit, maxBytes: MAX_POLLED_BYTES, mayWait, now: this.#effects.now }
    this.#effects.store('takeJoins', { actor: { agent, account }, channel, after, ...limits }, (outcome) => {
      poll.asking = false
      // Its stream has ended, or the relay is about to stop.
      if (!this.#polls.has(poll)) return
      if (!outcome.ok) {
        this.#polls.delete(poll)
        return request.refuse(refusalOf(outcome.error))
      }
      if (outcome.value.joins.length > 0 || !mayWait) this.#give(poll, outcome.value)
      else if (poll.more) this.#ask(poll, poll.until > this.#effects.monotonic)
    })
  }

  #give(poll: Poll, { joins, lastNumber, pending }: StoreResult<'takeJoins'>): void {
    this.#polls.delete(poll)
    const requests = joins.map(({ invite, agent, box, number }) => {
      return { inviteId: fromHex(invite), agentId: fromHex(agent), box, number: BigInt(number) }
    })
    const fields = { requests, last: BigInt(lastNumber), pending: pending.map(BigInt) }
    poll.request.answer({ case: 'pollJoinRequests', value: create(PollJoinRequestsResponseSchema, fields) })
  }
}

const ASKED: Body = { case: 'requestJoin', value: message(RequestJoinResponseSchema, { boxKey: new Uint8Array() }) }

/** Answers a joiner that does not have the key of its box yet. */
function answerBoxKey(request: PendingRequest, { invite, ended, welcomed }: StoreResult<'invite'>): void {
  if (ended && welcomed !== true) return request.refuse(ended)
  const { boxKey } = invite ?? {}
  if (!boxKey) return request.refuse({ refused: 'invite_invalid', message: 'This invite asks for no proof.' })
  request.answer({ case: 'requestJoin', value: message(RequestJoinResponseSchema, { boxKey }) })
}

/**
 * When a request expires: with its invite, if any member may answer it. A member that asks again needs the owner's
 * answer.
 */
function untilOf({ members, expiresAt }: Invite, joined: boolean, now: Time): Time {
  const soon = now + REQUEST_MS
  if (!members) return soon
  return joined ? Math.min(soon, expiresAt) : expiresAt
}
