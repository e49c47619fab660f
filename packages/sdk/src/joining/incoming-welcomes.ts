/**
 * Checks and copies Welcomes from the relay, and passes each to its join by token or to the offers. Each waits for
 * pending calls that create or join a channel of the same name, so the number waiting is limited. Welcomes beyond the
 * limit are dropped without an acknowledgement, so the relay delivers them again in the next session.
 */
import { CHANNEL_ID_BYTES, isChannelName, StaticError, toHex } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { AgentServices } from '../agent/services.ts'
import { keepOffer, type Offer, type OfferPolicy } from './offers.ts'
import { type CheckedWelcome, checkWelcome, indexOf } from './welcome.ts'

/** Limits of the Welcomes being processed, the same as for pending offers. */
export const MOST_INCOMING = 256
export const MOST_INCOMING_BYTES: number = 8 * 1024 * 1024

/** The Welcomes that one agent is processing. */
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
