/** What an account may see of its channels from outside: names, members and sizes, no content. */
import type { OwnedChannel, StoreRequest, StoreResult } from '../../../ports.ts'
import type { Context } from '../context.ts'

export function owned(
  { rows }: Context,
  { account, skip, maxChannels, maxMembersPerChannel, maxMembers }: StoreRequest<'owned'>,
): StoreResult<'owned'> {
  const { total, channels } = rows.owned.list(account, skip, maxChannels)
  let left = maxMembers
  return {
    total,
    channels: channels.map((channel): OwnedChannel => {
      const { id, name, mode, owner, createdAt, lastAt, logBytes, lastIndex } = channel
      const { count, members } = rows.owned.furthestBehind(channel, Math.min(left, maxMembersPerChannel))
      left -= members.length
      const behind = members.map(({ agent, cursor }) => ({ agent, waiting: Math.max(0, lastIndex - cursor) }))
      // Entries that all members have fetched are deleted a little later.
      const waitingBytes = behind[0]?.waiting === 0 ? 0 : logBytes
      return { id, name, mode, owner, createdAt, lastAt, waitingBytes, members: count, behind }
    }),
  }
}
