/**
 * Limits the offers that an agent keeps. Anyone with one of its KeyPackages can make an offer, so they are limited, and
 * the adder with the most offers loses one first.
 */
import { MAX_WELCOME_BYTES, StaticError } from '@static/protocol'
import type { AgentId } from '../ports/index.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentChannels } from '../agent/channels.ts'

/** Whose offers an agent accepts. `known`: agents whose key is pinned or that share a channel with this agent. */
export type OfferPolicy = 'anyone' | 'known' | 'none'
export const OFFER_POLICIES: readonly OfferPolicy[] = ['anyone', 'known', 'none']

/** Limits of pending offers: in total, per adder, and the bytes of their Welcomes. */
export const MAX_OFFERS = 256
export const MAX_OFFERS_OF_ONE = 32
export const MAX_OFFER_BYTES: number = 8 * 1024 * 1024

/** The offers of one adder. */
interface Share {
  count: number
  bytes: number
  oldest: AgentChannel
  newest: AgentChannel
}

/**
 * Checks the size of a Welcome before it is parsed.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export function checkWelcomeSize({ length }: Uint8Array): void {
  if (length <= MAX_WELCOME_BYTES) return
  throw StaticError.of('invalid_welcome', `The Welcome is ${length} bytes; the limit is ${MAX_WELCOME_BYTES}.`)
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
    if (channel.state !== 'offered' || !channel.welcome) continue
    const size = channel.welcome.length
    count += 1
    bytes += size
    const adder = channel.standing.offeredBy ?? ''
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
  const [first, second] = [one.standing.offeredAt, other.standing.offeredAt]
  return first === second ? one.id < other.id : first < second
}

/** Whether an agent's key is pinned or it shares a channel with this agent. */
export function isKnownAgent(agent: AgentId, pins: { has(agent: AgentId): boolean }, channels: AgentChannels): boolean {
  return pins.has(agent) || [...channels].some(({ group }) => group?.members.has(agent) === true)
}
