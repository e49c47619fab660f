/** The offers reported to a program, by number. */
import { StaticError } from '@static/protocol'
import { MAX_OFFERS } from '../joining/offers.ts'

/**
 * Holds as many offers as an agent does, so that strangers cannot fill the memory. An older one is no longer pending in
 * the agent either.
 */
export class HeldOffers<Offer> {
  readonly #offers = new Map<number, Offer>()

  /** Holds an offer under a number higher than all earlier ones. */
  put(on: number, offer: Offer): void {
    this.#offers.set(on, offer)
    const [oldest = on] = this.#offers.keys()
    if (this.#offers.size > MAX_OFFERS) this.#offers.delete(oldest)
  }

  /** Answers an offer, and forgets it if that succeeds. Throws `not_found` if it is no longer held. */
  async answer<Result>(on: number, how: (offer: Offer) => Promise<Result>): Promise<Result> {
    const offer = this.#offers.get(on)
    if (!offer) throw StaticError.of('not_found', 'The offer is no longer pending. Ask to be added again.')
    const result = await how(offer)
    this.#offers.delete(on)
    return result
  }
}
