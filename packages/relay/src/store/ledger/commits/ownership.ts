/**
 * Ownership of a channel (SPEC.md, 4.3): the owner names a standby, which may make itself the owner at any time, and
 * then pays for the channel. Members check the same rules in the group, so a relay that lacks one only stores commits
 * that they skip.
 */
import { toHex } from '@static/protocol'
import type { Account, Actor, AgentId, Refusal, StoreRequest } from '../../../ports.ts'
import { type Context, refuse, touch } from '../context.ts'
import { refuseChannel } from '../invites/joins.ts'
import { hasRoom } from '../room/room.ts'
import { type Channel, type Ownership, type Slot, isVouched, onRoster } from '../state.ts'

/** How many rejected commits are skipped in search of the standby before. Beyond that there is none. */
const MAX_SKIPPED = 16

/** What a commit says about ownership, and the members that it changes. */
export interface OwnershipClaim {
  readonly actor: Actor
  /** Undefined if it names no owner. */
  readonly owner: AgentId | undefined
  readonly standby: AgentId | undefined
  readonly adds: readonly AgentId[]
  readonly removes: readonly AgentId[]
  /** The limit for guests of a channel that the actor's account creates. */
  readonly guestLimit: number
}

/** What a declaration says about ownership. */
export function claimOf({
  actor,
  declaration,
  guestLimit,
}: Pick<StoreRequest<'commit'>, 'actor' | 'declaration' | 'guestLimit'>): OwnershipClaim {
  const { adds, removes, owner = new Uint8Array(), standby = new Uint8Array() } = declaration
  const named = (agent: Uint8Array): AgentId | undefined => (agent.length > 0 ? toHex(agent) : undefined)
  return {
    actor,
    owner: named(owner),
    standby: named(standby),
    adds: adds.map((agent) => toHex(agent)),
    removes: removes.map((agent) => toHex(agent)),
    guestLimit,
  }
}

/** Whether a commit makes its sender the owner. Such a commit is accepted like one of the owner, and its sender pays. */
export function takesOver(channel: Channel, { actor, owner }: OwnershipClaim): boolean {
  return owner !== undefined && owner !== channel.owner && owner === actor.agent
}

/** Checks whether the actor may set this owner and this standby. */
export function judgeOwnership(
  context: Context,
  channel: Channel,
  claim: OwnershipClaim,
  { maxChannels, size }: { readonly maxChannels: number; readonly size: number },
): Refusal | undefined {
  const { actor, owner, standby, adds, removes } = claim
  if (owner === undefined) {
    return standby === undefined ? undefined : refuse('invalid_request', '`declaration.standby` requires `owner`.')
  }
  if (adds.length > 0 || (removes.length > 0 && standby !== undefined)) {
    return refuse('invalid_request', 'A commit that names the owner or the standby changes no other members.')
  }
  if (owner !== channel.owner) return judgeTakeOver(context, channel, claim, { maxChannels, size })
  if (removes.length > 0) return undefined
  if (actor.agent !== owner) return refuse('not_allowed', "Only the channel's owner can name a standby.")
  return standby === undefined ? undefined : judgeStandby(channel, standby)
}

function judgeStandby(channel: Channel, standby: AgentId): Refusal | undefined {
  const member = channel.members.get(standby)
  if (!onRoster(member) || standby === channel.owner) {
    return refuse('invalid_request', `Agent ${standby} is not another member of the channel.`)
  }
  if (!isVouched(member)) {
    return refuse(
      'not_allowed',
      `The owner has not vouched for agent ${standby}. Vouch for it first: \`static channel vouch\`, or \`vouch\` of the channel in a program.`,
    )
  }
  const sender = channel.senders.get(standby)
  if (sender?.barred) {
    return refuse(
      'not_allowed',
      `A commit of agent ${standby} was rejected, so it could not take the channel over. Let it commit again first.`,
    )
  }
  if (sender?.acted) return undefined
  return refuse(
    'not_allowed',
    `Agent ${standby} has not yet sent anything in this channel with an account, and only a member with one can take it over. Have it send a message with its API key first.`,
  )
}

function judgeTakeOver(
  { rows, retention }: Context,
  channel: Channel,
  { actor, owner, standby, removes }: OwnershipClaim,
  { maxChannels, size }: { readonly maxChannels: number; readonly size: number },
): Refusal | undefined {
  if (actor.agent !== owner || actor.agent !== channel.standby || !isTrusted(channel, owner)) {
    return refuse('not_allowed', 'Only the standby that the owner has named can take the channel over.')
  }
  if (standby !== undefined || removes.length > 0) {
    return refuse('invalid_request', 'A take-over names no standby and removes no one.')
  }
  const { account } = actor
  if (!account) return refuse('api_key_required')
  if (isSame(account, channel.account)) return undefined
  if (rows.names.find(account, channel.name) !== undefined) {
    return refuse(
      'channel_exists',
      `Your account already has a channel ${channel.name}. Delete it first, then take this one over.`,
    )
  }
  if (rows.names.count(account) >= maxChannels) {
    return refuse('not_allowed', `Your account has reached its limit of ${maxChannels} channels. Delete one first.`)
  }
  if (hasRoom({ rows, retention }, account, channel.bytes + size)) return undefined
  return refuse(
    'queue_full',
    `The channel holds ${channel.bytes} bytes, for which the disk of your account has no room. Delete a channel, or choose a larger plan.`,
  )
}

/** Sets the ownership as an accepted commit of a slot says. Returns what was before, if anything has changed. */
export function setOwnership(
  context: Context,
  channel: Channel,
  claim: OwnershipClaim,
  slot: number,
): Slot['replaced'] {
  const { actor, owner = channel.owner, standby, removes } = claim
  const replaced = ownershipOf(channel)
  if (takesOver(channel, claim)) {
    const account = actor.account ?? channel.account
    // Its new account pays for guests: no more than the relay would give a channel of its own.
    const most = isSame(account, channel.account) ? Infinity : claim.guestLimit
    const guestLimit = Math.min(channel.guestLimit, most)
    replace(context, channel, { account, owner, standby: undefined, guestLimit, ownershipSlot: slot, takenSlot: slot })
    context.rows.invites.dropAll(channel)
    refuseChannel(context, channel, 'invite_revoked')
    return replaced
  }
  const isSetting = claim.owner !== undefined && actor.agent === channel.owner && removes.length === 0
  const isClearing = channel.standby !== undefined && removes.includes(channel.standby)
  if (!isSetting && !isClearing) return undefined
  replace(context, channel, { ...replaced, standby: isSetting ? standby : undefined, ownershipSlot: slot })
  return replaced
}

/** Why a take-over cannot be undone; undefined if it can, or if the commit is none. */
export function judgeReturn({ rows }: Context, channel: Channel, slot: Slot): Refusal | undefined {
  const { replaced } = slot
  if (!replaced || !isTakeOver(slot)) return undefined
  if (channel.takenSlot !== slot.slot) return refuse('not_allowed', 'Another agent has taken the channel over since.')
  // Only a member could act as the owner, and the group of a new owner has removed the former one for good.
  if (!isTrusted(channel, replaced.owner)) {
    return refuse('not_allowed', 'The former owner is no longer a member that is vouched for.')
  }
  const isFree = isSame(replaced.account, channel.account) || !rows.names.find(replaced.account, channel.name)
  return isFree
    ? undefined
    : refuse('channel_exists', `The account of the former owner has another channel ${channel.name} now.`)
}

/**
 * Undoes what a rejected commit did to the ownership, once its roster change is undone. A later commit of the same owner
 * has the last word.
 */
export function restoreOwnership(context: Context, channel: Channel, slot: Slot): void {
  let { replaced } = slot
  if (!replaced || (!isTakeOver(slot) && channel.ownershipSlot !== slot.slot)) return
  for (let skipped = 0; replaced.ownershipSlot !== undefined; skipped++) {
    const earlier = context.rows.slots.get(channel, replaced.ownershipSlot)
    if (!earlier?.rejected || !earlier.replaced) break
    replaced = skipped < MAX_SKIPPED ? earlier.replaced : { ...replaced, standby: undefined, ownershipSlot: undefined }
  }
  replace(context, channel, replaced)
}

/** Forgets the standby if it is no longer a member that the owner has vouched for: the group has another one, or none. */
export function dropStrayStandby(context: Context, channel: Channel): void {
  if (channel.standby === undefined || isTrusted(channel, channel.standby)) return
  replace(context, channel, { ...ownershipOf(channel), standby: undefined })
}

/** Whether an agent is a member that the owner has vouched for. Not if it was removed and added again since. */
function isTrusted(channel: Channel, agent: AgentId | undefined): boolean {
  const member = agent === undefined ? undefined : channel.members.get(agent)
  return onRoster(member) && isVouched(member)
}

/** Whether a commit has made its sender the owner. */
export function isTakeOver({ replaced, sender }: Slot): boolean {
  return replaced?.standby === sender
}

function replace(context: Context, channel: Channel, next: Readonly<Ownership>): void {
  const { accounts } = context.rows
  // Both are loaded first: loading one sums up its channels as they are.
  const [before, after] = [accounts.get(channel.account), accounts.get(next.account)]
  before.bytes -= channel.bytes
  after.bytes += channel.bytes
  channel.changes.ownedBefore ??= channel.account
  const isNewOwner = next.owner !== channel.owner
  Object.assign(channel, ownershipOf(next))
  channel.lag = undefined
  touch(context, channel)
  if (isNewOwner) context.emit({ type: 'ownerChanged', channel: channel.id })
}

/** The ownership alone, with every field: one that is undefined may be missing in a stored slot. */
function ownershipOf(from: Readonly<Ownership>): Ownership {
  const { account, owner, standby, guestLimit, ownershipSlot, takenSlot } = from
  return { account, owner, standby, guestLimit, ownershipSlot, takenSlot }
}

function isSame(one: Account, other: Account): boolean {
  return one.id === other.id && one.mode === other.mode
}
