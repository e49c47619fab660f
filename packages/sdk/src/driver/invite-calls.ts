/** Calls about invites: issue, list and revoke them, and join with one. */
import type { Channel } from '../public/channel.ts'
import type { StaticClient } from '../public/client.ts'
import type { CallResult, InviteCall } from './pipe-protocol.ts'
import { given, plainInvite } from './plain.ts'

/** `describe` turns the joined channel into the result. */
export async function answerInviteCall(
  client: StaticClient,
  call: InviteCall,
  describe: (channel: Channel) => unknown,
): Promise<CallResult> {
  switch (call.do) {
    case 'invite': {
      const terms = given(call, 'maxUses', 'ttl', 'admit', 'replace', 'require')
      return { result: await client.invite(call.name, terms) }
    }
    case 'inviteLink': {
      const terms = given(call, 'maxUses', 'ttl', 'admit', 'replace', 'require', 'endpoint')
      return { result: await client.inviteLink(call.name, terms) }
    }
    case 'joinWithLink':
      return { result: describe(await client.joinWithLink(call.link, call.timeout, given(call, 'show'))) }
    case 'joinWithToken':
      return { result: describe(await client.joinWithToken(call.name, call.token, call.timeout, given(call, 'show'))) }
    case 'revokeInvite':
      await client.revokeInvite(call.token)
      return {}
    case 'invites':
      return { result: client.invites(call.name).map(plainInvite) }
  }
}
