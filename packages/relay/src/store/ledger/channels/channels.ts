/** Creating and deleting channels, and checking membership. */
import { chainStart, fromHex } from '@static/protocol'
import type { Done, Position, Refusal, StoreRequest, StoreResult } from '../../../ports.ts'
import { type Context, admit, isRefusal, noteAction, refuse, touchMember } from '../context.ts'
import { refuseChannel } from '../invites/joins.ts'
import { placeMember, roster } from '../state.ts'

/** Creates a channel with its creator as owner and first member. A repeated request gets the same answer. */
export function create(context: Context, request: StoreRequest<'create'>): StoreResult<'create'> {
  const { rows, hash } = context
  const { actor, channel: id, name, welcome, guestLimit, maxChannels, now } = request
  const { agent, account } = actor
  const known = rows.channels.get(id)
  if (known) {
    const same = known.owner === agent && known.name === name && isSame(known.account, account)
    return same ? { welcome: rows.channels.founding(known), guestLimit: known.guestLimit } : refuse('channel_exists')
  }
  if (rows.names.find(account, name) !== undefined) {
    return refuse(
      'channel_exists',
      `Channel ${name} already exists in this account. Choose another name, ask its owner for an invite, or, if that agent is gone, run \`static channel delete ${name}\`.`,
    )
  }
  if (rows.names.count(account) >= maxChannels) {
    return refuse('not_allowed', `This account has reached its limit of ${maxChannels} channels. Delete one first.`)
  }

  const start: Position = { index: 0, hash: chainStart(hash, fromHex(id)), slot: 0 }
  const channel = rows.channels.add(
    { id, name, createdAt: now, account, owner: agent, guestLimit, last: start },
    welcome,
  )
  const owner = {
    agent,
    from: 0,
    sponsor: undefined,
    vouched: start.slot,
    welcomed: true,
    ended: undefined,
    cursor: start,
    welcome: undefined,
    earlier: undefined,
  }
  placeMember(channel, owner)
  touchMember(context, channel, owner)
  noteAction(context, actor, channel)
  return { welcome, guestLimit }
}

/** Deletes a channel and everything in it. */
export function remove(context: Context, request: StoreRequest<'delete'>): Done | Refusal {
  const { rows } = context
  const { account, channel: id, name, createdBy = Infinity } = request
  const found = id ?? (name === undefined ? undefined : rows.names.find(account, name))
  const channel = found === undefined ? undefined : rows.channels.get(found)
  if (!channel || !isSame(channel.account, account)) return refuse('not_found')
  if (name !== undefined && channel.name !== name) return refuse('not_found')
  if (channel.createdAt > createdBy) return refuse('not_found')
  const members = roster(channel).map(({ agent }) => agent)
  refuseChannel(context, channel, 'invite_invalid')
  rows.dropChannel(channel)
  context.emit({ type: 'deleted', channel: channel.id, name: channel.name, members })
  return { done: true }
}

/** Whether the actor may claim a KeyPackage for this channel. */
export function check(context: Context, { actor, channel: id }: StoreRequest<'check'>): Done | Refusal {
  const admitted = admit(context, actor, id)
  if (isRefusal(admitted)) return admitted
  if (!actor.account) return refuse('api_key_required')
  noteAction(context, actor, admitted.channel)
  return { done: true }
}

function isSame(one: StoreRequest<'delete'>['account'], other: StoreRequest<'delete'>['account']): boolean {
  return one.id === other.id && one.mode === other.mode
}
