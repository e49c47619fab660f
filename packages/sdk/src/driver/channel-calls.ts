/** Calls of a channel. */
import type { Channel } from '../public/channel.ts'
import type { CallResult, ChannelCall } from './pipe-protocol.ts'
import type { PendingCalls } from './pending-calls.ts'
import { given, plainListedMember, plainMember, plainReceipt } from './plain.ts'

export async function answerChannelCall(
  channel: Channel,
  call: ChannelCall & { readonly id: number },
  bytes: Uint8Array,
  pending: PendingCalls,
): Promise<CallResult> {
  switch (call.do) {
    case 'send':
      return { result: await pending.run(call, (limits) => channel.send(bytes, limits)) }
    case 'waitForMember':
      return { result: plainMember(await pending.run(call, (limits) => channel.waitForMember(call.agentId, limits))) }
    case 'addMembers': {
      const members = call.members.map((member) => (typeof member === 'string' ? member : bytes.subarray(...member)))
      const welcomes = await channel.addMembers(members, given(call, 'acceptNewKey', 'require'))
      return { result: welcomes.map(({ length }) => length), bytes: Buffer.concat(welcomes) }
    }
    case 'members':
      return { result: channel.members().map(plainListedMember) }
    case 'receipts':
      return { result: (await channel.receipts()).map(plainReceipt) }
    case 'reached': {
      const { messageId, index, level, by } = call
      const named = by === undefined ? {} : { by }
      const wait = pending.run(call, (limits) => channel.reached({ messageId, index }, level, { ...named, ...limits }))
      return { result: await wait }
    }
    case 'acceptNewKey':
      await channel.acceptNewKey(bytes, call.agentId)
      return {}
    case 'removeMember':
      await channel.removeMember(call.agentId)
      return {}
    case 'rotate':
      await channel.rotate()
      return {}
    case 'resetRoster':
      await channel.resetRoster()
      return {}
    case 'leave':
      await channel.leave()
      return {}
    case 'delete':
      await channel.delete()
      return {}
    case 'rejectCommit':
      await channel.rejectCommit(call.slot)
      return {}
    case 'vouch':
      await channel.vouch(call.agentId)
      return {}
    case 'setStandby':
      await channel.setStandby(call.agentId)
      return {}
    case 'transfer':
      await channel.transfer(call.agentId)
      return {}
    case 'takeOver':
      await channel.takeOver()
      return {}
    case 'ownership':
      return { result: { owner: channel.owner, standby: channel.standby ?? null } }
    case 'liftBar':
      await channel.liftBar(call.agentId)
      return {}
    case 'catchUp':
      await pending.run(call, ({ signal }) => channel.catchUp({ signal }))
      return {}
    case 'verify':
      return { result: channel.verify() }
    case 'confirmed':
      return { result: channel.confirmed }
    case 'acceptFork':
      channel.acceptFork()
      return {}
    case 'close':
      channel.close()
      return {}
  }
}
