/** Channels and who is in them, where no commit is needed: founding, deleting, leaving. */
import { isChannelName, leaveBytes, maxCommitBytes, message, StaticError } from '@static/protocol'
import {
  type CreateChannelRequest,
  CreateChannelResponseSchema,
  type DeleteChannelRequest,
  DeleteChannelResponseSchema,
  type LeaveRequest,
  LeaveResponseSchema,
} from '@static/protocol/relay'
import type { StoreRequest } from '../../ports.ts'
import type { PendingRequest } from '../pending-request.ts'
import { accountOf, channelIdOf, checkNotice, numberOf, wrong } from '../request-fields.ts'
import { accepted, actorOf, allowMemberEnvelopes, type ChannelContext } from './context.ts'

export function createChannel(context: ChannelContext, request: PendingRequest, value: CreateChannelRequest): void {
  const { effects, settings } = context
  const account = accountOf(request)
  const { name, channelId } = value
  if (!isChannelName(name)) throw StaticError.of('channel_error')
  if (value.welcome.length === 0 || value.welcome.length > maxCommitBytes(1)) throw wrong('welcome has at most 18 KiB')
  const store: StoreRequest<'create'> = {
    actor: { agent: request.caller.agent, account },
    channel: channelIdOf(channelId),
    name,
    welcome: value.welcome,
    guestLimit: value.guestLimit ?? settings.guestLimit,
    maxChannels: settings.counts.channelsPerAccount,
    now: effects.now,
  }
  effects.store('create', store, (outcome) => {
    const result = accepted(request, outcome)
    if (!result) return
    allowMemberEnvelopes(context, request.caller.agent)
    request.answer({ case: 'createChannel', value: message(CreateChannelResponseSchema, { channelId, ...result }) })
  })
}

export function deleteChannel(
  { effects }: ChannelContext,
  request: PendingRequest,
  { channel }: DeleteChannelRequest,
): void {
  const account = accountOf(request)
  const id = channel.case === 'channelId' ? channelIdOf(channel.value) : undefined
  const name = channel.case === 'name' ? channel.value : undefined
  effects.store('delete', { account, channel: id, name }, (outcome) => {
    if (!accepted(request, outcome)) return
    request.answer({ case: 'deleteChannel', value: message(DeleteChannelResponseSchema, {}) })
  })
}

export function leaveChannel(
  { effects, crypto }: ChannelContext,
  request: PendingRequest,
  { channelId, notice }: LeaveRequest,
): void {
  const channel = channelIdOf(channelId)
  if (!notice) throw wrong('notice is there')
  checkNotice(notice)
  if (!crypto.equal(notice.publicKey, request.caller.publicKey)) throw wrong('the notice is of the agent that leaves')
  if (!crypto.verify(notice.publicKey, leaveBytes(channelId, notice), notice.signature)) {
    throw wrong('the notice is signed by the agent that leaves')
  }
  numberOf(notice.slot, 'slot')
  effects.store('leave', { actor: actorOf(request), channel, notice, now: effects.now }, (outcome) => {
    const result = accepted(request, outcome)
    if (!result) return
    request.answer({ case: 'leave', value: message(LeaveResponseSchema, { index: BigInt(result.index) }) })
  })
}
