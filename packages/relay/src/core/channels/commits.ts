/** Requests about commits: sending and rejecting them, and sending their Welcomes. */
import {
  AGENT_ID_BYTES,
  declarationBytes,
  INVITE_ID_BYTES,
  MAX_MEMBERS,
  message,
  MESSAGE_ID_BYTES,
  rosterBytes,
  vouchBytes,
} from '@static/protocol'
import {
  LiftBarResponseSchema,
  type LiftBarRequest,
  type RejectCommitRequest,
  RejectCommitResponseSchema,
  type ResetRosterRequest,
  ResetRosterResponseSchema,
  type SendCommitRequest,
  SendCommitResponseSchema,
  type SendWelcomeRequest,
  SendWelcomeResponseSchema,
  type VouchRequest,
  VouchResponseSchema,
  type Welcome,
} from '@static/protocol/relay'
import type { ChannelId, StoreRequest, StoreResult, Time, Unpaid, WelcomeFields } from '../../ports.ts'
import { CommitRates, isReader } from '../requests/commit-rates.ts'
import { isUnknown } from '../effects.ts'
import type { Outcome } from '../io.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import type { Quota, Unit } from '../accounts/quota.ts'
import {
  accountOf,
  agentIdOf,
  channelIdOf,
  checkLength,
  checkNotice,
  numberOf,
  wrong,
} from '../requests/request-fields.ts'
import { accepted, actorOf, type ChannelContext } from './context.ts'

/** Maximum backoff of a sender that lost a slot, times the number that lost recently; a random part of it is used. */
const BACKOFF_MS = 150
/** Period over which senders that lost are counted. */
const CONTENTION_MS = 1000
const MAX_TAG_BYTES = 32

export class Commits {
  readonly #context: ChannelContext
  readonly #quota: Quota
  readonly #rates: CommitRates
  /** Number of senders per channel that recently lost a slot. */
  readonly #contention = new Map<ChannelId, { lost: number; since: Time }>()

  constructor(context: ChannelContext, quota: Quota) {
    this.#context = context
    this.#quota = quota
    this.#rates = new CommitRates(context.settings)
  }

  get throttled(): number {
    return this.#rates.throttled
  }

  send(request: PendingRequest, value: SendCommitRequest): void {
    const { effects } = this.#context
    const { declaration } = value
    const channel = channelIdOf(value.channelId)
    checkLength(value.messageId, MESSAGE_ID_BYTES, 'message_id')
    if (value.commit.length === 0) throw wrong('`commit` is required')
    if (value.groupInfo.length > 0 && value.welcomes.length === 0)
      throw wrong('`group_info` is shared by Welcomes: `welcomes` is required with it')
    if (!declaration) throw wrong('`declaration` is required')
    // Checked first, because verifying the rest is expensive.
    const wait = this.#rates.take(request, channel, effects.monotonic)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    this.#check(request, value, declaration)
    const store: Omit<StoreRequest<'commit'>, 'paid'> = {
      actor: actorOf(request),
      channel,
      slot: numberOf(value.slot, 'slot'),
      messageId: value.messageId,
      commit: value.commit,
      declaration,
      welcomes: value.welcomes.map(welcomeFields),
      groupInfo: value.groupInfo,
      maxChannels: this.#context.settings.counts.channelsPerAccount,
      guestLimit: this.#context.settings.guestLimit,
      now: effects.now,
    }
    const answer = (outcome: Outcome<Exclude<StoreResult<'commit'>, Unpaid>>): void => {
      if (outcome.ok && 'refused' in outcome.value && outcome.value.refused === 'epoch_mismatch') {
        return request.refuse({ ...outcome.value, retryAfterMs: this.#backoff(channel) })
      }
      const result = accepted(request, outcome)
      if (!result) return
      const [index, head] = [BigInt(result.index), BigInt(result.head)]
      request.answer({ case: 'sendCommit', value: message(SendCommitResponseSchema, { index, head }) })
    }
    this.#countInChannel(request, channel, () => this.#store(request, 'commit', store, answer))
  }

  reject(request: PendingRequest, value: RejectCommitRequest): void {
    const store = {
      actor: actorOf(request),
      channel: channelIdOf(value.channelId),
      slot: numberOf(value.slot, 'slot'),
    }
    this.#context.effects.store('reject', store, (outcome) => {
      const result = accepted(request, outcome)
      if (!result) return
      request.answer({ case: 'rejectCommit', value: message(RejectCommitResponseSchema, { ...result }) })
    })
  }

  liftBar(request: PendingRequest, value: LiftBarRequest): void {
    accountOf(request)
    const store = {
      actor: actorOf(request),
      channel: channelIdOf(value.channelId),
      agent: agentIdOf(value.agentId),
    }
    this.#context.effects.store('liftBar', store, (outcome) => {
      if (!accepted(request, outcome)) return
      request.answer({ case: 'liftBar', value: message(LiftBarResponseSchema, {}) })
    })
  }

  vouch(request: PendingRequest, value: VouchRequest): void {
    const { effects, crypto } = this.#context
    accountOf(request)
    const { channelId, slot, agentIds, signature } = value
    const channel = channelIdOf(channelId)
    checkAgents({ agent_ids: agentIds })
    const wait = this.#rates.take(request, channel, effects.monotonic)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    const store = {
      actor: actorOf(request),
      channel,
      slot: numberOf(slot, 'slot'),
      agents: agentIds.map(agentIdOf),
    }
    if (!crypto.verify(request.caller.publicKey, vouchBytes({ channelId, slot, agentIds }), signature))
      throw wrong('`signature` is not a valid signature of the sender')
    this.#countInChannel(request, channel, () => {
      effects.store('vouch', store, (outcome) => {
        if (!accepted(request, outcome)) return
        request.answer({ case: 'vouch', value: message(VouchResponseSchema, {}) })
      })
    })
  }

  resetRoster(request: PendingRequest, value: ResetRosterRequest): void {
    const { effects, crypto } = this.#context
    accountOf(request)
    const { channelId, position, agentIds, vouched, signature } = value
    const channel = channelIdOf(channelId)
    if (!position) throw wrong('`position` is required')
    checkAgents({ agent_ids: agentIds, vouched })
    const wait = this.#rates.take(request, channel, effects.monotonic)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    const { slot, index, hash } = position
    const store = {
      actor: actorOf(request),
      channel,
      position: { slot: numberOf(slot, 'slot'), index: numberOf(index, 'index'), hash },
      agents: agentIds.map(agentIdOf),
      vouched: vouched.map(agentIdOf),
    }
    const signed = rosterBytes({ channelId, slot, index, hash, agentIds, vouched })
    if (!crypto.verify(request.caller.publicKey, signed, signature))
      throw wrong('`signature` is not a valid signature of the sender')
    this.#countInChannel(request, channel, () => {
      effects.store('resetRoster', store, (outcome) => {
        if (!accepted(request, outcome)) return
        request.answer({ case: 'resetRoster', value: message(ResetRosterResponseSchema, {}) })
      })
    })
  }

  welcome(request: PendingRequest, value: SendWelcomeRequest): void {
    const { effects } = this.#context
    const channel = channelIdOf(value.channelId)
    if (!value.welcome) throw wrong('`welcome` is required')
    const wait = this.#rates.take(request, channel, effects.monotonic)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    const store = {
      actor: actorOf(request),
      channel,
      slot: numberOf(value.slot, 'slot'),
      welcome: welcomeFields(value.welcome),
      now: effects.now,
    }
    this.#countInChannel(request, channel, () => {
      this.#store(request, 'welcome', store, (outcome) => {
        if (!accepted(request, outcome)) return
        request.answer({ case: 'sendWelcome', value: message(SendWelcomeResponseSchema, {}) })
      })
    })
  }

  /** Drops cached data of a deleted channel. */
  forget(channel: ChannelId): void {
    this.#contention.delete(channel)
  }

  tick(): void {
    for (const [channel, { since }] of this.#contention) {
      if (this.#context.effects.monotonic - since > CONTENTION_MS) this.#contention.delete(channel)
    }
  }

  /**
   * Continues once the request is counted towards the channel's rate. For a caller that does not read the channel, the
   * store first checks its membership: otherwise the channel's id would be enough to use up the rate.
   */
  #countInChannel(request: PendingRequest, channel: ChannelId, then: () => void): void {
    if (isReader(request, channel)) return then()
    const { effects } = this.#context
    const query = { agent: request.caller.agent, channels: [channel], after: undefined, limit: 1 }
    effects.store('resume', query, (outcome) => {
      const result = accepted(request, outcome)
      if (!result) return
      const isMember = result.standings.some((standing) => !('refused' in standing) && !standing.removed)
      const wait = isMember ? this.#rates.takeChannel(channel, effects.monotonic) : 0
      if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
      then()
    })
  }

  /** Calls the store. If the operation must be paid for, calls it again with units of the payer's quota. */
  #store<Name extends 'commit' | 'welcome'>(
    request: PendingRequest,
    name: Name,
    fields: Omit<StoreRequest<Name>, 'paid'>,
    then: (outcome: Outcome<Exclude<StoreResult<Name>, Unpaid>>) => void,
    units: readonly Unit[] = [],
  ): void {
    const store = { ...fields, paid: units.length } as unknown as StoreRequest<Name>
    this.#context.effects.store(name, store, (outcome) => {
      // The outcome is unknown, so charge now: a retry of a stored commit is free.
      const unknown = isUnknown(outcome) ? units.length : 0
      const used =
        outcome.ok && 'units' in outcome.value && !('unpaid' in outcome.value) ? outcome.value.units : unknown
      units.slice(0, used).forEach((unit) => unit.use(request.caller.key))
      units.slice(used).forEach((unit) => unit.release())
      if (!outcome.ok || !('unpaid' in outcome.value)) {
        return then(outcome as Outcome<Exclude<StoreResult<Name>, Unpaid>>)
      }
      const { unpaid, units: needed = 1 } = outcome.value
      this.#quota.takeSeveral(unpaid, needed, (taken) => {
        if ('refused' in taken) request.refuse(taken)
        else this.#store(request, name, fields, then, taken)
      })
    })
  }

  /** Checks the lengths of the lists and the sender's signature over the declaration. */
  #check(
    { caller }: PendingRequest,
    { channelId, slot, messageId, commit, welcomes }: SendCommitRequest,
    declaration: NonNullable<SendCommitRequest['declaration']>,
  ): void {
    const { crypto } = this.#context
    const { adds, removes, leaveNotices, vouches } = declaration
    checkAgents({ adds, removes, leave_notices: leaveNotices, vouches, welcomes })
    for (const id of [...adds, ...removes, ...vouches]) agentIdOf(id)
    for (const [field, id] of Object.entries({ owner: declaration.owner, standby: declaration.standby })) {
      if (id.length > 0) checkLength(id, AGENT_ID_BYTES, `declaration.${field}`)
    }
    leaveNotices.forEach(checkNotice)
    const signed = declarationBytes({ channelId, slot, messageId, commitHash: crypto.hash(commit) }, declaration)
    if (!crypto.verify(caller.publicKey, signed, declaration.signature)) {
      throw wrong('`declaration.signature` is not a valid signature of the sender')
    }
  }

  #backoff(channel: ChannelId): number {
    const { monotonic: now } = this.#context.effects
    const known = this.#contention.get(channel)
    const contention = known && now - known.since <= CONTENTION_MS ? known : { lost: 0, since: now }
    contention.lost++
    this.#contention.set(channel, contention)
    const [a = 0, b = 0] = this.#context.crypto.random(2)
    return 1 + ((a * 256 + b) / 65_536) * BACKOFF_MS * contention.lost
  }
}

/** Checks lists with one item for each agent. */
function checkAgents(lists: Readonly<Record<string, readonly unknown[]>>): void {
  for (const [field, { length }] of Object.entries(lists)) {
    if (length > MAX_MEMBERS) throw wrong(`\`${field}\` must have at most ${MAX_MEMBERS} entries, not ${length}`)
  }
}

function welcomeFields({ agentId, welcome, inviteId, tag }: Welcome): WelcomeFields {
  if (welcome.length === 0) throw wrong('`welcome` must not be empty')
  if (inviteId.length !== 0) checkLength(inviteId, INVITE_ID_BYTES, 'invite_id')
  if (tag.length > MAX_TAG_BYTES) throw wrong(`\`tag\` must be at most ${MAX_TAG_BYTES} bytes, not ${tag.length}`)
  return { agent: agentIdOf(agentId), welcome, inviteId, tag }
}
