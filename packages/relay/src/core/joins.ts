/**
 * The relay's part in joining with an invite (SPEC.md, "Invites"): it turns away agents without the token, keeps
 * requests in memory, and passes them to the agent that created the invite. It cannot read what a request contains.
 */
import { create } from '@bufbuild/protobuf'
import {
  AGENT_ID_BYTES,
  type ErrorCode,
  ERRORS,
  fromHex,
  joinProofBytes,
  MAX_MEMBERS,
  message,
  toHex,
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
import type { AgentId, ChannelId, Invite, StoreEvent, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'
import type { Delivery } from './delivery.ts'
import type { Effects } from './effects.ts'
import type { CoreCrypto } from './io.ts'
import type { PendingRequest } from './pending-request.ts'
import { type RefusalDetails, refusalOf, serverMessage, tooOften } from './server-messages.ts'
import { Rates } from './rates.ts'
import { accountOf, channelIdOf, checkLength, idOf, wrong } from './request-fields.ts'
import type { Stream } from './stream.ts'

interface Joiner {
  readonly invite: Invite
  readonly agent: AgentId
  box: Uint8Array
  /** The session in which the owner received it; after a lost session the owner gets it again. */
  given: string | undefined
  /** By the monotonic clock. */
  until: Time
}

interface Poll {
  readonly request: PendingRequest
  readonly channel: ChannelId
  readonly limit: number
  /** By the monotonic clock. */
  readonly until: Time
}

const INVITE_ID_BYTES = 16
const ADMISSION_KEY_BYTES = 32
const MAX_BOX_BYTES = 16_384
const MAX_INVITE_MS = 366 * 86_400_000
const REQUEST_MS = 600_000
const MAX_WAIT_MS = 60_000
/** Limits of one poll's result: as many requests as a channel can have members, and a number of bytes. */
const MAX_POLLED = MAX_MEMBERS
const MAX_POLLED_BYTES = 524_288
/** Maximum number of pending requests of all invites. Beyond it, the owner with the most loses requests first. */
const MAX_WAITING = 10_000
/** Concurrent polls per agent. */
const MAX_POLLS = 4
const ANSWERS: readonly string[] = [
  'invite_invalid',
  'invite_expired',
  'invite_used_up',
  'invite_revoked',
  'identity_changed',
  'group_full',
] satisfies ErrorCode[]

/** The join requests of one node. */
export class Joins {
  readonly #effects: Effects
  readonly #crypto: CoreCrypto
  readonly #settings: Settings
  readonly #delivery: Delivery
  readonly #rates: Rates
  /** Registrations and revocations by agent. */
  readonly #changes: Rates
  /** By invite, then by joiner. */
  readonly #waiting = new Map<string, Map<AgentId, Joiner>>()
  /** The same by the invites' creator, oldest first. */
  readonly #byOwner = new Map<AgentId, Set<Joiner>>()
  #count = 0
  #polls: Poll[] = []

  constructor(effects: Effects, crypto: CoreCrypto, settings: Settings, delivery: Delivery) {
    this.#effects = effects
    this.#crypto = crypto
    this.#settings = settings
    this.#delivery = delivery
    const { joinsPerMinute, invitesPerMinute } = settings.rates
    this.#rates = new Rates(joinsPerMinute / 60, joinsPerMinute)
    this.#changes = new Rates(invitesPerMinute / 60, invitesPerMinute)
  }

  register(request: PendingRequest, value: RegisterInviteRequest): void {
    const account = accountOf(request)
    checkLength(value.admissionKey, ADMISSION_KEY_BYTES, 'admission_key')
    const { now } = this.#effects
    const expiresAt = Number(value.expiresAtMs)
    if (expiresAt <= now || expiresAt > now + MAX_INVITE_MS)
      throw wrong(`\`expires_at_ms\` must be between now, ${now}, and 366 days later, not ${expiresAt}`)
    if (value.maxUses < 1) throw wrong('`max_uses` must be at least 1')
    const invite = {
      id: idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id'),
      channel: channelIdOf(value.channelId),
      // Copied: the bytes are a view of the whole request.
      admissionKey: new Uint8Array(value.admissionKey),
      expiresAt,
      maxUses: value.maxUses,
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
      this.#refuseAll(id, 'invite_revoked')
      request.answer({ case: 'revokeInvite', value: message(RevokeInviteResponseSchema, {}) })
    })
  }

  request(request: PendingRequest, value: RequestJoinRequest): void {
    const id = idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id')
    const { agent, nonce } = request.caller
    if (value.box.length === 0 || value.box.length > MAX_BOX_BYTES)
      throw wrong(`\`box\` must be 1 to ${MAX_BOX_BYTES} bytes, not ${value.box.length}`)
    const wait = this.#rates.take(agent, this.#effects.monotonic)
    if (wait > 0) return request.refuse(tooOften(this.#settings.rates.joinsPerMinute, 'join requests per agent', wait))
    const boxHash = this.#crypto.hash(value.box)
    const claim = joinProofBytes({ sessionNonce: nonce, inviteId: value.inviteId, agentId: fromHex(agent), boxHash })
    this.#effects.store('invite', { id, agent }, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      const { invite, welcomed } = outcome.value
      if (!invite || !this.#crypto.equal(this.#crypto.mac(invite.admissionKey, claim), value.proof)) {
        return request.refuse({ refused: 'invite_invalid' })
      }
      const refusal = this.#add(invite, agent, value.box)
      // An agent that retries may already have been added, with the last use: its Welcome is on the way.
      if (refusal && welcomed !== true) return request.refuse(refusal)
      request.answer({ case: 'requestJoin', value: message(RequestJoinResponseSchema, {}) })
      this.#wake(invite.agent, invite.channel)
    })
  }

  poll(request: PendingRequest, value: PollJoinRequestsRequest): void {
    accountOf(request)
    const until = this.#effects.monotonic + Math.min(value.waitMs, MAX_WAIT_MS)
    const limit = Math.min(value.limit === 0 ? MAX_POLLED : value.limit, MAX_POLLED)
    const poll = { request, channel: channelIdOf(value.channelId), limit, until }
    const waiting = this.#waitingFor(poll)
    const session = toHex(request.caller.nonce)
    if (value.waitMs === 0 || waiting.some(({ given }) => given !== session)) return this.#give(poll, waiting)
    const { agent } = request.caller
    if (this.#polls.filter((open) => open.request.caller.agent === agent).length >= MAX_POLLS) {
      return request.refuse({
        refused: 'rate_limited',
        message: `This agent has ${MAX_POLLS} polls open, the maximum. Wait for one to return.`,
      })
    }
    this.#polls.push(poll)
  }

  answer(request: PendingRequest, value: AnswerJoinRequest): void {
    accountOf(request)
    const id = idOf(value.inviteId, INVITE_ID_BYTES, 'invite_id')
    const agent = idOf(value.agentId, AGENT_ID_BYTES, 'agent_id')
    if (!ANSWERS.includes(value.code)) throw wrong(`\`code\` must be one of ${ANSWERS.join(', ')}`)
    const joiner = this.#waiting.get(id)?.get(agent)
    if (joiner?.invite.agent !== request.caller.agent) {
      return request.refuse({
        refused: 'not_found',
        message: `Agent ${agent} has no pending join request for this invite.`,
      })
    }
    this.#refuse(joiner, value.code)
    request.answer({ case: 'answerJoin', value: message(AnswerJoinResponseSchema, {}) })
  }

  /** Drops the request of an agent that was added, and all requests for a deleted channel. */
  handle(event: StoreEvent): void {
    if (event.type === 'welcomed') this.#forget(event.inviteId, event.agent)
    if (event.type !== 'deleted') return
    for (const [id, joiners] of this.#waiting) {
      for (const { invite } of joiners.values()) {
        if (invite.channel === event.channel) this.#refuseAll(id, 'invite_invalid')
      }
    }
  }

  /** Drops the polls of a stream that has ended. */
  closed(stream: Stream): void {
    if (stream.requests === 0) return
    for (const { request } of this.#polls) if (request.stream === stream) request.abandon()
    this.#polls = this.#polls.filter(({ request }) => request.stream !== stream)
  }

  /** Answers all polls immediately, because the relay is about to stop. */
  drain(): void {
    const polls = this.#polls
    this.#polls = []
    for (const poll of polls) this.#give(poll, this.#waitingFor(poll))
  }

  tick(): void {
    const { monotonic: now } = this.#effects
    const over = this.#polls.filter(({ until }) => until <= now)
    if (over.length > 0) this.#polls = this.#polls.filter(({ until }) => until > now)
    for (const poll of over) this.#give(poll, this.#waitingFor(poll))
    for (const [id, joiners] of this.#waiting) {
      for (const { agent, until } of joiners.values()) if (until <= now) this.#forget(id, agent)
    }
  }

  /** Counts a registration or revocation, and refuses it if its agent has made too many. */
  #isTooOften(request: PendingRequest): boolean {
    const wait = this.#changes.take(request.caller.agent, this.#effects.monotonic)
    if (wait === 0) return false
    const { invitesPerMinute } = this.#settings.rates
    request.refuse(tooOften(invitesPerMinute, 'registrations and revocations of invites', wait))
    return true
  }

  #add(invite: Invite, agent: AgentId, box: Uint8Array): RefusalDetails | undefined {
    const { now, monotonic } = this.#effects
    if (invite.revoked) return { refused: 'invite_revoked' }
    if (invite.expiresAt <= now) return expired(invite)
    if (invite.uses >= invite.maxUses) return usedUp(invite)
    const joiners = this.#waiting.get(invite.id) ?? new Map<AgentId, Joiner>()
    if (!joiners.has(agent) && joiners.size >= this.#settings.counts.joinsPerInvite) {
      return {
        refused: 'rate_limited',
        retryAfterMs: 5000,
        message: 'Too many agents are waiting to join with this invite. Retry later.',
      }
    }
    this.#forget(invite.id, agent)
    const joiner = { invite, agent, box: new Uint8Array(box), given: undefined, until: monotonic + REQUEST_MS }
    joiners.set(agent, joiner)
    this.#waiting.set(invite.id, joiners)
    const owned = this.#byOwner.get(invite.agent) ?? new Set()
    owned.add(joiner)
    this.#byOwner.set(invite.agent, owned)
    this.#count++
    if (this.#count > MAX_WAITING) this.#forgetOfMany()
    return undefined
  }

  #wake(owner: AgentId, channel: ChannelId): void {
    const woken = this.#polls.filter(({ request, channel: polled }) => {
      return polled === channel && request.caller.agent === owner
    })
    this.#polls = this.#polls.filter((poll) => !woken.includes(poll))
    for (const poll of woken) this.#give(poll, this.#waitingFor(poll))
  }

  #waitingFor({ request, channel, limit }: Poll): Joiner[] {
    const owned = this.#byOwner.get(request.caller.agent) ?? []
    const found = [...owned].filter(({ invite }) => invite.channel === channel)
    // New requests first, so that unanswered ones do not block them.
    const session = toHex(request.caller.nonce)
    found.sort((a, b) => Number(a.given === session) - Number(b.given === session))
    let bytes = 0
    return found.slice(0, limit).filter(({ box }) => (bytes += box.length) <= MAX_POLLED_BYTES)
  }

  #give({ request }: Poll, joiners: readonly Joiner[]): void {
    const session = toHex(request.caller.nonce)
    for (const joiner of joiners) joiner.given = session
    const requests = joiners.map(({ invite, agent, box }) => {
      return { inviteId: fromHex(invite.id), agentId: fromHex(agent), box }
    })
    request.answer({
      case: 'pollJoinRequests',
      value: create(PollJoinRequestsResponseSchema, { requests }),
    })
  }

  #refuseAll(id: string, code: ErrorCode): void {
    for (const joiner of this.#waiting.get(id)?.values() ?? []) this.#refuse(joiner, code)
  }

  #refuse({ invite, agent }: Joiner, code: string): void {
    this.#forget(invite.id, agent)
    const session = this.#delivery.session(agent)
    if (!session) return
    const value = message(JoinAnsweredSchema, { inviteId: fromHex(invite.id), code })
    this.#effects.send([session.stream.id], serverMessage({ case: 'joinAnswered', value }))
  }

  #forget(id: string, agent: AgentId): void {
    const joiners = this.#waiting.get(id)
    const joiner = joiners?.get(agent)
    if (!joiners || !joiner) return
    this.#count--
    joiners.delete(agent)
    if (joiners.size === 0) this.#waiting.delete(id)
    const owned = this.#byOwner.get(joiner.invite.agent)
    owned?.delete(joiner)
    if (owned?.size === 0) this.#byOwner.delete(joiner.invite.agent)
  }

  /** Drops the oldest request of the owner with the most, so that no owner can evict those of others. Joiners retry. */
  #forgetOfMany(): void {
    let most: Set<Joiner> | undefined
    for (const owned of this.#byOwner.values()) if (!most || owned.size > most.size) most = owned
    const [oldest] = most ?? []
    if (oldest) this.#forget(oldest.invite.id, oldest.agent)
  }
}

function expired({ expiresAt }: Invite): RefusalDetails {
  const problem = `The invite token expired at ${new Date(expiresAt).toISOString()}.`
  return { refused: 'invite_expired', message: `${problem} ${ERRORS.invite_expired.remedy}` }
}

function usedUp({ maxUses }: Invite): RefusalDetails {
  const problem = `The invite token has no uses left: ${maxUses} of ${maxUses} are taken.`
  return { refused: 'invite_used_up', message: `${problem} ${ERRORS.invite_used_up.remedy}` }
}
