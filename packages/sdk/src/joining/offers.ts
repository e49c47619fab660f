/**
 * Offers: channels that other agents have added this agent to, pending until the application accepts them. Anyone with
 * one of its KeyPackages can make an offer, so offers are limited, and the adder with the most offers loses one first.
 */
import { sha256 } from '#platform/crypto'
import { type ChannelName, StaticError, toHex } from '@static/protocol'
import type { AgentChannels } from '../agent/channels.ts'
import { resumeOf } from '../agent/deliveries.ts'
import { alreadyIn, newChannel } from '../agent/founding.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import { same } from '../platform/bytes.ts'
import type { AgentId } from '../ports/index.ts'
import { type CheckedWelcome, checkWelcomeSize, indexOf, outOfDate, startOf } from './welcome.ts'

type Offering = Pick<AgentServices, 'context' | 'channels' | 'keyPackages'>

/**
 * The agents whose offers are accepted. `known`: agents whose key is pinned or that share a channel with this agent.
 */
export type OfferPolicy = 'anyone' | 'known' | 'none'
export const OFFER_POLICIES: readonly OfferPolicy[] = ['anyone', 'known', 'none']

/** Limits of pending offers: in total, per adder, and the bytes of their Welcomes. */
export const MAX_OFFERS = 256
export const MAX_OFFERS_OF_ONE = 32
export const MAX_OFFER_BYTES: number = 8 * 1024 * 1024

/** An offered channel. Owner and adder come from the Welcome itself, not from the relay. */
export interface Offer {
  readonly channel: AgentChannel
  readonly name: ChannelName
  readonly owner: AgentId
  readonly addedBy: AgentId
}

/**
 * Handles a delivered Welcome: checks and stores it, calls `offered`, then acknowledges it to the relay. A Welcome to a
 * later membership of a channel is held until the earlier one has ended and is read.
 *
 * @throws {StaticError} `invalid_welcome`, `not_allowed` by the policy; the relay may delete such a Welcome as well
 */
export async function keepOffer(
  agent: Offering & Pick<AgentServices, 'held'>,
  delivered: CheckedWelcome,
  policy: OfferPolicy,
  offered: (offer: Offer) => void,
): Promise<void> {
  const { context, channels } = agent
  const { name, channelId, position } = delivered
  const welcome = delivered.welcome?.welcome ?? new Uint8Array()
  const id = toHex(channelId)
  const index = indexOf(delivered)
  const earlier = channels.get(id)
  if (earlier && agent.held.hold(earlier, delivered)) return
  let isHeld = false
  try {
    if (policy === 'none') throw StaticError.of('not_allowed', 'This agent accepts no offers.')
    await channels.names.run(name, async () => {
      const known = channels.get(id)
      if (known && known.state !== 'offered') {
        isHeld = agent.held.hold(known, delivered)
        return
      }
      // A call may be about to join it, under the lock of its name.
      if (known && known.name !== name)
        throw StaticError.of('invalid_welcome', `This agent has an offer of the same channel as ${known.name}.`)
      if (known?.pendingWelcome && same(known.pendingWelcome, welcome)) return
      const { leafKey, ...offer } = await inspect(agent, name, channelId, welcome)
      const ref = checkUnused(agent, welcome)
      const { addedBy } = offer
      if (policy === 'known' && !isKnownAgent(addedBy, context.pins, channels)) {
        throw StaticError.of(
          'not_allowed',
          `The offer is from an unknown agent, ${addedBy}. This agent accepts offers only from known agents.`,
        )
      }
      const start = { index, hash: position?.hash ?? new Uint8Array(), slot: Number(position?.slot ?? 0n) }
      if (known) channels.drop(known, undefined)
      const channel = channels.hold(
        newChannel(id, name, offer.owner, 'offered', start, {
          leafKeys: [leafKey],
          addedBy,
          offeredAt: context.now(),
        }),
      )
      channel.keepWelcome(welcome)
      agent.keyPackages.reserve(ref)
      await context.journal.written()
      offered({ ...offer, channel })
    })
    await dropExcess(agent)
  } finally {
    if (!isHeld) context.deliveries.acknowledge(id, index)
  }
}

/** Drops excess and dead offers, each under the lock of its name, so that an offer being accepted stays. */
async function dropExcess(agent: Offering): Promise<void> {
  const { context, channels } = agent
  for (;;) {
    const dead = [...channels].find((channel) => isDead(agent, channel))
    const excess = dead ?? excessOffer(channels)
    if (!excess) return
    await channels.names.run(excess.name, async () => {
      if (excess.state !== 'offered' || channels.get(excess.id) !== excess) return
      channels.drop(excess, undefined)
      const error = dead
        ? StaticError.of('invalid_welcome', 'The KeyPackage of this offer was used elsewhere or has expired.')
        : StaticError.of(
            'queue_full',
            `Too many offers are pending. Dropped this one, from agent ${excess.standing.record.addedBy}.`,
          )
      context.emit({ type: 'welcome_refused', channel: excess.name, error })
      await context.journal.written()
    })
  }
}

/** Whether an offer cannot be accepted, because its KeyPackage is deleted. */
function isDead({ keyPackages }: Offering, { state, pendingWelcome }: AgentChannel): boolean {
  return state === 'offered' && pendingWelcome !== undefined && !keyPackages.find(pendingWelcome)
}

/**
 * Allows one Welcome per KeyPackage, even within one channel. Otherwise a relay could fill the disk with offers for a
 * single KeyPackage, and an offer's KeyPackage would be deleted with the offer that it replaces. Returns the
 * KeyPackage's ref.
 */
function checkUnused({ keyPackages, channels }: Offering, welcome: Uint8Array): string {
  const { ref } = keyPackages.forWelcome(welcome)
  for (const other of channels) {
    if (other.state !== 'offered' || !other.pendingWelcome) continue
    if (keyPackages.find(other.pendingWelcome)?.ref === ref) {
      throw StaticError.of('invalid_welcome', 'The KeyPackage of this Welcome was already used for another offer.')
    }
  }
  return ref
}

export async function waitingOffers(agent: Offering): Promise<readonly Offer[]> {
  const { channels } = agent
  const offers: Offer[] = []
  for (const channel of channels) {
    const { name, channelId } = channel
    if (channel.state !== 'offered') continue
    await channels.names.run(name, async () => {
      const { state, pendingWelcome: welcome } = channel
      // Accepted, declined or incomplete.
      if (state !== 'offered' || !welcome) return
      try {
        const { leafKey: _, ...offer } = await inspect(agent, name, channelId, welcome)
        offers.push({ ...offer, channel })
      } catch {
        // Its KeyPackage is deleted, so the offer cannot be accepted.
        channels.drop(channel, undefined)
      }
    })
  }
  return offers
}

async function inspect(
  { context: { engine, key }, keyPackages }: Offering,
  name: ChannelName,
  channelId: Uint8Array,
  welcome: Uint8Array,
): Promise<Omit<Offer, 'channel'> & { readonly leafKey: Uint8Array }> {
  const { privatePart } = keyPackages.forWelcome(welcome)
  const joined = await engine.join(welcome, privatePart, key, { channelId, name })
  const { context: channel, own } = engine.facts(joined.group)
  const leafKey = Uint8Array.from(own.encryptionKey)
  const offer = { name, owner: toHex(channel.owner), addedBy: toHex(joined.signer.agentId), leafKey }
  wipeEpoch(engine, joined)
  return offer
}

// ---- Accepting ----

/**
 * Joins a channel. Using the same Welcome again returns the same channel.
 *
 * @throws {StaticError} `invalid_welcome`, `channel_exists`
 */
export async function joinByWelcome(
  { context, channels, requests, keyPackages }: Offering & Pick<AgentServices, 'requests'>,
  name: ChannelName,
  welcome: Uint8Array,
  expected: { readonly owner?: Uint8Array },
): Promise<AgentChannel> {
  const { engine, key, journal, invites } = context
  return await channels.names.run(name, async () => {
    const welcomeHash = sha256(welcome)
    const held = channels.named(name)
    if (held?.usedWelcomeHash && same(held.usedWelcomeHash, welcomeHash)) {
      checkOwner(held, expected.owner)
      return held
    }
    if (held?.state === 'ended') {
      throw StaticError.of(
        'channel_exists',
        `Messages from an earlier membership in ${name} are unread. Read them, or leave the channel.`,
      )
    }
    if (held) throw StaticError.of('channel_exists', alreadyIn(held))
    checkWelcomeSize(welcome)
    const { privatePart } = keyPackages.forWelcome(welcome)
    const joined = await engine.join(welcome, privatePart, key, { name, ...expected })
    const { groupId, context } = engine.facts(joined.group)
    const id = toHex(groupId)
    const offered = channels.get(id)
    // The sender of the Welcome may have used the id of another channel in order to replace it here.
    if (offered && (offered.state !== 'offered' || offered.name !== name)) {
      wipeEpoch(engine, joined)
      throw StaticError.of(
        'channel_exists',
        `This agent is already a member of the channel of this Welcome, or has an offer of it as ${offered.name}.`,
      )
    }
    const isOffer = offered?.pendingWelcome !== undefined && same(offered.pendingWelcome, welcome)
    // Where the log begins for the Welcome, if the relay reported it together with the Welcome.
    const at = isOffer ? offered.history.position.index : undefined
    const nowhere = { index: 0, hash: new Uint8Array(), slot: 0 }
    const begin = (): AgentChannel => channels.hold(newChannel(id, name, toHex(context.owner), 'offered', nowhere))
    let channel = offered ?? begin()
    try {
      await requests.ask(resumeOf([channel.channelId]), ({ channels: [state] }) => {
        if (channel.state !== 'offered') throw StaticError.of('channel_exists', alreadyIn(channel))
        const start = startOf(state)
        // This agent was removed and added again since, and is not in the group of this Welcome. Another Welcome
        // follows.
        if (at !== undefined && at !== start.index) throw outOfDate()
        // Another channel may have been joined meanwhile with the same KeyPackage.
        keyPackages.spend(keyPackages.forWelcome(welcome).ref)
        // Another Welcome's offer may be of a different group, whose owner and adder differ from those of this one.
        if (offered && !isOffer) {
          channels.drop(offered, undefined)
          channel = begin()
        }
        channel.enter(joined, 'joined', start, welcomeHash)
        invites?.accepted(id)
        if (state) channel.intake.answered(state)
      })
    } catch (error) {
      wipeEpoch(engine, joined)
      // An outdated offer can never be accepted.
      const isOver = isOffer && error instanceof StaticError && error.code === 'invalid_welcome'
      if (channel !== offered || (isOver && channel.state === 'offered')) channels.drop(channel, undefined)
      throw error
    }
    await journal.written()
    return channel
  })
}

function checkOwner({ owner, name }: AgentChannel, expected: Uint8Array | undefined): void {
  if (expected === undefined || toHex(expected) === owner) return
  throw StaticError.of('invalid_welcome', `Channel ${name} is owned by ${owner}, not ${toHex(expected)}.`)
}

// ---- Limits ----

/** The offers of one adder. */
interface Share {
  count: number
  bytes: number
  oldest: AgentChannel
  newest: AgentChannel
}

/**
 * The offer to drop if there are too many: the oldest of the adder with the most. Among adders with equally many, the
 * one with the newest offer loses, so that many strangers with one offer each cannot displace pending offers.
 */
export function excessOffer(channels: Iterable<AgentChannel>): AgentChannel | undefined {
  const shares = new Map<AgentId, Share>()
  let count = 0
  let bytes = 0
  for (const channel of channels) {
    if (channel.state !== 'offered' || !channel.pendingWelcome) continue
    const size = channel.pendingWelcome.length
    count += 1
    bytes += size
    const adder = channel.standing.record.addedBy ?? ''
    const share = shares.get(adder)
    if (!share) shares.set(adder, { count: 1, bytes: size, oldest: channel, newest: channel })
    else {
      share.count += 1
      share.bytes += size
      if (cameBefore(channel, share.oldest)) share.oldest = channel
      if (cameBefore(share.newest, channel)) share.newest = channel
    }
  }
  const most = (of: 'count' | 'bytes'): Share | undefined =>
    [...shares.values()].reduce<Share | undefined>(
      (one, other) => (one && !hasMore(other, one, of) ? one : other),
      undefined,
    )
  const greedy = most('count')
  if (greedy && (count > MAX_OFFERS || greedy.count > MAX_OFFERS_OF_ONE)) return greedy.oldest
  return bytes > MAX_OFFER_BYTES ? most('bytes')?.oldest : undefined
}

function hasMore(one: Share, other: Share, of: 'count' | 'bytes'): boolean {
  return one[of] === other[of] ? cameBefore(other.newest, one.newest) : one[of] > other[of]
}

/** Orders offers by arrival. Those that arrived at the same time have an arbitrary but stable order. */
function cameBefore(one: AgentChannel, other: AgentChannel): boolean {
  const [first, second] = [one.standing.record.offeredAt, other.standing.record.offeredAt]
  return first === second ? one.id < other.id : first < second
}

/** Whether an agent's key is pinned or it shares a channel with this agent. */
export function isKnownAgent(agent: AgentId, pins: { has(agent: AgentId): boolean }, channels: AgentChannels): boolean {
  return pins.has(agent) || [...channels].some(({ group }) => group?.members.has(agent) === true)
}
