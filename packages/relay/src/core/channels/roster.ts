/** Channel requests that need no commit: create, delete, leave. */
import { leaveBytes, maxCommitBytes, message, parseChannelName } from '@static/protocol'
import {
  type CreateChannelRequest,
  CreateChannelResponseSchema,
  type DeleteChannelRequest,
  DeleteChannelResponseSchema,
  type LeaveRequest,
  LeaveResponseSchema,
} from '@static/protocol/relay'
import type { StoreRequest } from '../../ports.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import { accountOf, channelIdOf, checkNotice, numberOf, wrong } from '../requests/request-fields.ts'
import { accepted, actorOf, allowMemberEnvelopes, type ChannelContext } from './context.ts'

export function createChannel(context: ChannelContext, request: PendingRequest, value: CreateChannelRequest): void {
  const { effects, settings } = context
  const account = accountOf(request)
  const { channelId, welcome } = value
  const name = parseChannelName(value.name)
  const longest = maxCommitBytes(1)
  if (welcome.length === 0 || welcome.length > longest) {
    throw wrong(`\`welcome\` must be 1 to ${longest} bytes, not ${welcome.length}`)
  }
  const store: StoreRequest<'create'> = {
    actor: { agent: request.caller.agent, account },
    channel: channelIdOf(channelId),
    name,
    welcome,
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
  if (!notice) throw wrong('`notice` is required')
  checkNotice(notice)
  if (!crypto.equal(notice.publicKey, request.caller.publicKey))
    throw wrong('`notice.public_key` is not the key of the sender')
  if (!crypto.verify(notice.publicKey, leaveBytes(channelId, notice), notice.signature)) {
    throw wrong('`notice.signature` is not a valid signature of the sender')
  }
  numberOf(notice.slot, 'slot')
  effects.store('leave', { actor: actorOf(request), channel, notice, now: effects.now }, (outcome) => {
    const result = accepted(request, outcome)
    if (!result) return
    request.answer({ case: 'leave', value: message(LeaveResponseSchema, { index: BigInt(result.index) }) })
  })
}
