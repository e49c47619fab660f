/** Places for the bodies of parts: so many at once, so many from an address; when all are taken, the slowest goes. */
import { networkLimit, networkOf } from '@static/protocol'
import type { Time } from '../ports.ts'

/** How many bodies there may be at once. */
export interface PlaceLimits {
  readonly total: number
  readonly perAddress: number
}

export const PLACES: PlaceLimits = { total: 64, perAddress: 16 }
/** A body is not judged before. */
const FAIR_MS = 2000

/** A body that has a place. */
export interface Place {
  /** As in the limits per address. */
  readonly address: string
  readonly since: Time
  /** How many bytes of it have passed. */
  bytes: number
  /** Ends it, because another needs the place. */
  readonly end: () => void
}

/** The places of a node. */
export class Places {
  readonly #limits: PlaceLimits
  readonly #taken = new Set<Place>()
  /** By address, and by network for IPv6. */
  readonly #counts = new Map<string, number>()

  constructor(limits: PlaceLimits = PLACES) {
    this.#limits = limits
  }

  get taken(): number {
    return this.#taken.size
  }

  /** Takes a place; returns undefined if there is none, even for one that is faster than others. */
  take(address: string, now: Time, end: () => void): Place | undefined {
    const { total, perAddress } = this.#limits
    const network = networkOf(address)
    if (this.#count(address) >= perAddress) return undefined
    if (network !== undefined && this.#count(network) >= networkLimit(perAddress, total)) return undefined
    if (this.#taken.size >= total && !this.#endSlowest(now)) return undefined
    const place: Place = { address, since: now, bytes: 0, end }
    this.#taken.add(place)
    this.#add(place, 1)
    return place
  }

  leave(place: Place): void {
    if (this.#taken.delete(place)) this.#add(place, -1)
  }

  #endSlowest(now: Time): boolean {
    let slowest: Place | undefined
    for (const place of this.#taken) {
      if (now - place.since < FAIR_MS) continue
      if (!slowest || speedOf(place, now) < speedOf(slowest, now)) slowest = place
    }
    if (!slowest) return false
    this.leave(slowest)
    slowest.end()
    return true
  }

  #count(key: string): number {
    return this.#counts.get(key) ?? 0
  }

  #add({ address }: Place, change: 1 | -1): void {
    const network = networkOf(address)
    for (const key of network === undefined ? [address] : [address, network]) {
      const count = this.#count(key) + change
      if (count > 0) this.#counts.set(key, count)
      else this.#counts.delete(key)
    }
  }
}

function speedOf({ bytes, since }: Place, now: Time): number {
  return bytes / (now - since)
}
