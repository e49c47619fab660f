/**
 * Welcomes that the relay delivers: checked, copied, and passed to the join by token that they are for, or to the offers.
 * Each waits for the calls under way that create or join a channel of its name, so those that wait are limited. Others are
 * forgotten and not acknowledged, so that the relay delivers them again in the next session.
 */
import { CHANNEL_ID_BYTES, isChannelName, StaticError, toHex } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { AgentServices } from '../agent/services.ts'
import { keepOffer, type Offer, type OfferPolicy } from './offers.ts'
import { type CheckedWelcome, checkWelcome, indexOf } from './welcome.ts'

/** Limits of the Welcomes that are being processed: as many as offers are kept. */
export const MOST_INCOMING = 256
export const MOST_INCOMING_BYTES: number = 8 * 1024 * 1024

/** The Welcomes of one agent that are being processed. */
export class IncomingWelcomes {
  readonly #agent: AgentServices
  readonly #policy: OfferPolicy
  readonly #offered: (offer: Offer) => void
  #count = 0
  #bytes = 0

  constructor(agent: AgentServices, policy: OfferPolicy, offered: (offer: Offer) => void) {
    this.#agent = agent
    this.#policy = policy
    this.#offered = offered
  }

  receive(delivered: DeliverWelcome): void {
    const { deliveries } = this.#agent.context
    const { channelId, name } = delivered
    let welcome: CheckedWelcome
    try {
      welcome = checkWelcome(delivered)
    } catch (error) {
      this.#refused(isChannelName(name) ? name : '', error)
      // The relay may delete it.
      if (channelId.length === CHANNEL_ID_BYTES) deliveries.acknowledge(toHex(channelId), indexOf(delivered))
      return
    }
    const size = welcome.welcome?.welcome.length ?? 0
    if (this.#count === MOST_INCOMING || this.#bytes + size > MOST_INCOMING_BYTES) return
    this.#count += 1
    this.#bytes += size
    void this.#process(welcome).finally(() => {
      this.#count -= 1
      this.#bytes -= size
    })
  }

  async #process(welcome: CheckedWelcome): Promise<void> {
    try {
      const { invites } = this.#agent.context
      await (invites?.welcomed(welcome) ?? keepOffer(this.#agent, welcome, this.#policy, this.#offered))
    } catch (error) {
      this.#refused(welcome.name, error)
    }
  }

  #refused(channel: string, error: unknown): void {
    this.#agent.context.emit({ type: 'welcome_refused', channel, error: StaticError.from(error) })
  }
}
