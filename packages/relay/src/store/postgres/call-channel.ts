/** The one channel that a call is about. */
import type { ChannelId, StoreOperation } from '../../ports.ts'
import type { Call } from '../call.ts'

/** Operations whose request names the channel. */
const OF_CHANNEL = new Set<StoreOperation>([
  'append',
  'commit',
  'create',
  'reject',
  'liftBar',
  'vouch',
  'resetRoster',
  'welcome',
  'leave',
  'check',
  'read',
  'takeJoins',
  'beginFile',
  'fileStatus',
  'admitPart',
  'recordPart',
  'findPart',
  'dropFile',
])

/** Undefined if a call may access any channel or names several. */
export function channelOf({ name, request }: Call): ChannelId | undefined {
  if (name === 'registerInvite') return request.invite.channel
  if (name === 'requestJoin') return request.join.channel
  if (name === 'ack') return request.positions.length === 1 ? request.positions[0]?.channel : undefined
  return OF_CHANNEL.has(name) ? (request as { readonly channel: ChannelId }).channel : undefined
}
