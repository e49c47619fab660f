/** Calls about invites: issue, list and revoke them, and join with one. */
import type { Channel } from '../public/channel.ts'
import type { StaticChannelManager } from '../public/manager.ts'
import type { CallResult, InviteCall } from './pipe-protocol.ts'
import { plainInvite } from './plain.ts'

/** `describe` turns the joined channel into the result. */
export async function answerInviteCall(
  manager: StaticChannelManager,
  call: InviteCall,
  describe: (channel: Channel) => unknown,
): Promise<CallResult> {
  switch (call.do) {
    case 'invite': {
      const { name, maxUses, ttl, admit } = call
      return { result: await manager.invite(name, { maxUses, ttl, admit }) }
    }
    case 'inviteLink': {
      const { name, maxUses, ttl, admit, endpoint } = call
      const address = endpoint === undefined ? {} : { endpoint }
      return { result: await manager.inviteLink(name, { maxUses, ttl, admit, ...address }) }
    }
    case 'joinWithLink':
      return { result: describe(await manager.joinWithLink(call.link, call.timeout)) }
    case 'joinWithToken':
      return { result: describe(await manager.joinWithToken(call.name, call.token, call.timeout)) }
    case 'revokeInvite':
      await manager.revokeInvite(call.token)
      return {}
    case 'invites':
      return { result: manager.invites(call.name).map(plainInvite) }
  }
}
