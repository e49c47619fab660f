/** Calls of a channel. */
import type { Channel } from '../public/channel.ts'
import type { Answer, ChannelAsk } from './messages.ts'
import type { PendingCalls } from './pending-calls.ts'
import { plainListedMember, plainMember, plainReceipt } from './plain.ts'

export async function answerChannelCall(
  channel: Channel,
  ask: ChannelAsk & { readonly id: number },
  bytes: Uint8Array,
  pending: PendingCalls,
): Promise<Answer> {
  switch (ask.do) {
    case 'send':
      return { result: await pending.run(ask, (limits) => channel.send(bytes, limits)) }
    case 'waitForMember':
      return { result: plainMember(await pending.run(ask, (limits) => channel.waitForMember(ask.agentId, limits))) }
    case 'addMembers': {
      const members = ask.members.map((member) => (typeof member === 'string' ? member : bytes.subarray(...member)))
      const welcomes = await channel.addMembers(members, ask)
      return { result: welcomes.map(({ length }) => length), bytes: Buffer.concat(welcomes) }
    }
    case 'members':
      return { result: channel.members().map(plainListedMember) }
    case 'receipts':
      return { result: (await channel.receipts()).map(plainReceipt) }
    case 'reached': {
      const { messageId, index, level, by } = ask
      const named = by === undefined ? {} : { by }
      const wait = pending.run(ask, (limits) => channel.reached({ messageId, index }, level, { ...named, ...limits }))
      return { result: await wait }
    }
    case 'acceptNewKey':
      await channel.acceptNewKey(bytes, ask.agentId)
      return {}
    case 'removeMember':
      await channel.removeMember(ask.agentId)
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
      await channel.rejectCommit(ask.slot)
      return {}
    case 'vouch':
      await channel.vouch(ask.agentId)
      return {}
    case 'liftBar':
      await channel.liftBar(ask.agentId)
      return {}
    case 'catchUp':
      await pending.run(ask, (limits) => channel.catchUp(limits))
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
