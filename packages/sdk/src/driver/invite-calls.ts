/** Calls about invites: issue, list and revoke them, and join with one. */
import type { Channel } from '../public/channel.ts'
import type { StaticClient } from '../public/client.ts'
import type { CallResult, InviteCall } from './pipe-protocol.ts'
import { plainInvite } from './plain.ts'

/** `describe` turns the joined channel into the result. */
export async function answerInviteCall(
  client: StaticClient,
  call: InviteCall,
  describe: (channel: Channel) => unknown,
): Promise<CallResult> {
  switch (call.do) {
    case 'invite': {
      const { name, maxUses, ttl, admit } = call
      return { result: await client.invite(name, { maxUses, ttl, admit }) }
    }
    case 'inviteLink': {
      const { name, maxUses, ttl, admit, endpoint } = call
      const address = endpoint === undefined ? {} : { endpoint }
      return { result: await client.inviteLink(name, { maxUses, ttl, admit, ...address }) }
    }
    case 'joinWithLink':
      return { result: describe(await client.joinWithLink(call.link, call.timeout)) }
    case 'joinWithToken':
      return { result: describe(await client.joinWithToken(call.name, call.token, call.timeout)) }
    case 'revokeInvite':
      await client.revokeInvite(call.token)
      return {}
    case 'invites':
      return { result: client.invites(call.name).map(plainInvite) }
  }
}
