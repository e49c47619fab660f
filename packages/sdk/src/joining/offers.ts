/** Offers: channels that others have added this agent to, pending until the application accepts them. */
import { type ChannelName, StaticError, toHex } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { AgentId } from '../ports/index.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { CheckedWelcome } from './checked-welcome.ts'
import { newChannel } from '../agent/founding.ts'
import type { HeldWelcomes } from './held-welcomes.ts'
import { excessOffer, isKnownAgent, type OfferPolicy } from './offer-limits.ts'
import type { AgentServices } from '../agent/services.ts'

type Offering = Pick<AgentServices, 'context' | 'channels' | 'keyPackages'>

/** An offered channel. Owner and adder are from the Welcome itself, not from the relay. */
export interface Offer {
  readonly channel: AgentChannel
  readonly name: ChannelName
  readonly owner: AgentId
  readonly addedBy: AgentId
}

/**
 * Handles a delivered Welcome: checks and stores it, calls `offered`, then acknowledges it to the relay. One to a later
 * membership of a channel is held until the earlier one has ended and is read.
 *
 * @throws {StaticError} `invalid_welcome`, `not_allowed` by the policy; the relay may delete such a Welcome, too
 */
export async function takeWelcome(
  agent: Offering & { readonly held: HeldWelcomes },
  delivered: CheckedWelcome,
  policy: OfferPolicy,
  offered: (offer: Offer) => void,
): Promise<void> {
  const { context, channels } = agent
  const { name, channelId, position } = delivered
  const welcome = delivered.welcome?.welcome ?? new Uint8Array()
  const id = toHex(channelId)
  const index = Number(position?.index ?? 0n)
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
      // It may be about to be joined, under the lock of its name.
      if (known && known.name !== name)
        throw StaticError.of('invalid_welcome', `This agent has an offer of the same channel as ${known.name}.`)
      if (known?.welcome && same(known.welcome, welcome)) return
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
          offeredBy: addedBy,
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

/** Drops excess offers and dead ones, each under the lock of its name, so that one that is being accepted stays. */
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
            `Too many offers are pending. Dropped this one, from agent ${excess.standing.offeredBy}.`,
          )
      context.emit({ type: 'welcome_refused', channel: excess.name, error })
      await context.journal.written()
    })
  }
}

/** Whether an offer cannot be accepted, because its KeyPackage is deleted. */
function isDead({ keyPackages }: Offering, { state, welcome }: AgentChannel): boolean {
  return state === 'offered' && welcome !== undefined && !keyPackages.find(welcome)
}

/**
 * Allows one Welcome per KeyPackage, also of one channel: otherwise a relay could fill the disk with offers for a single
 * one, and the KeyPackage of an offer would be deleted with the offer that it replaces. Returns the KeyPackage's ref.
 */
function checkUnused({ keyPackages, channels }: Offering, welcome: Uint8Array): string {
  const { ref } = keyPackages.forWelcome(welcome)
  for (const other of channels) {
    if (other.state !== 'offered' || !other.welcome) continue
    if (keyPackages.find(other.welcome)?.ref === ref) {
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
      const { state, welcome } = channel
      // Accepted, declined or incomplete.
      if (state !== 'offered' || !welcome) return
      try {
        const { leafKey: _, ...offer } = await inspect(agent, name, channelId, welcome)
        offers.push({ ...offer, channel })
      } catch {
        // Its KeyPackage is deleted, so it cannot be accepted.
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
