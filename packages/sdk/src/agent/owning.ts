/** What the owner of a channel asks of the relay. */
import { fromHex, message, StaticError } from '@static/protocol'
import { DeleteChannelRequestSchema, LiftBarRequestSchema, RejectCommitRequestSchema } from '@static/protocol/relay'
import type { AgentId } from '../ports/index.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentServices } from './services.ts'

/** Deletes a channel for all members. */
export async function deleteChannel(
  { requests, channels, context }: Pick<AgentServices, 'requests' | 'channels' | 'context'>,
  channel: AgentChannel,
): Promise<void> {
  const value = message(DeleteChannelRequestSchema, { channel: { case: 'channelId', value: channel.channelId } })
  await requests.ask({ case: 'deleteChannel', value }, () =>
    channels.drop(channel, StaticError.of('not_found', `Channel ${channel.name} was deleted.`)),
  )
  await context.journal.written()
}

/** Declares a commit invalid. */
export async function rejectCommit(
  { requests }: Pick<AgentServices, 'requests'>,
  { channelId }: AgentChannel,
  slot: number,
): Promise<void> {
  const value = message(RejectCommitRequestSchema, { channelId, slot: BigInt(slot) })
  await requests.ask({ case: 'rejectCommit', value }, () => {})
}

/** Lets a member commit again. */
export async function liftBar(
  { requests }: Pick<AgentServices, 'requests'>,
  { channelId }: AgentChannel,
  member: AgentId,
): Promise<void> {
  const value = message(LiftBarRequestSchema, { channelId, agentId: fromHex(member) })
  await requests.ask({ case: 'liftBar', value }, () => {})
}
