/** Calls about invites: issue, list and revoke them, and join with one. */
import type { Channel } from '../public/channel.ts'
import type { StaticChannelManager } from '../public/manager.ts'
import type { Answer, InviteAsk } from './messages.ts'
import { plainInvite } from './plain.ts'

/** `describe` turns the channel that was joined into the result. */
export async function answerInviteCall(
  manager: StaticChannelManager,
  ask: InviteAsk,
  describe: (channel: Channel) => unknown,
): Promise<Answer> {
  switch (ask.do) {
    case 'invite': {
      const { name, maxUses, ttl, admit } = ask
      return { result: await manager.invite(name, { maxUses, ttl, admit }) }
    }
    case 'inviteLink': {
      const { name, maxUses, ttl, admit, endpoint } = ask
      const address = endpoint === undefined ? {} : { endpoint }
      return { result: await manager.inviteLink(name, { maxUses, ttl, admit, ...address }) }
    }
    case 'joinWithLink':
      return { result: describe(await manager.joinWithLink(ask.link, ask.timeout)) }
    case 'joinWithToken':
      return { result: describe(await manager.joinWithToken(ask.name, ask.token, ask.timeout)) }
    case 'revokeInvite':
      await manager.revokeInvite(ask.token)
      return {}
    case 'invites':
      return { result: manager.invites(ask.name).map(plainInvite) }
  }
}
