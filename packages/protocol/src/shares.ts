/**
 * Places in a shared pool, such as sessions or connections, and the rule for giving one up when none is left: the key
 * that holds the most gives up its longest-idle item. So no key has more than an equal share of the places that others
 * need, and a key that is alone has all of them. Every operation takes constant time, multiplied by the weight of an
 * item, and memory grows with the number of items held.
 */
import { sourceOf } from './address.ts'

interface Held {
  readonly key: string
  readonly weight: number
}

/** The items that each key holds. Weights are small whole numbers. */
export class Holdings<Item> {
  readonly #items = new Map<Item, Held>()
  /** The items of each key, longest idle first. */
  readonly #lines = new Map<string, Set<Item>>()
  readonly #sums = new Map<string, number>()
  /** The keys by total weight held; within a weight, those that have held it longest come first. */
  readonly #levels = new Map<number, Set<string>>()
  #most = 0
  #total = 0

  /** The total weight held by all keys. */
  get total(): number {
    return this.#total
  }

  /** The weight held by one key. */
  of(key: string): number {
    return this.#sums.get(key) ?? 0
  }

  /** The weight held by the key that holds the most. */
  get most(): number {
    return this.#most
  }

  has(item: Item): boolean {
    return this.#items.has(item)
  }

  /** The key that an item counts for, if it is held. */
  keyOf(item: Item): string | undefined {
    return this.#items.get(item)?.key
  }

  /** Adds an item that is not held. */
  add(item: Item, key: string, weight = 1): void {
    this.#items.set(item, { key, weight })
    const line = this.#lines.get(key)
    if (line) line.add(item)
    else this.#lines.set(key, new Set([item]))
    this.#change(key, weight)
  }

  /** Returns whether the item was held. */
  remove(item: Item): boolean {
    const held = this.#items.get(item)
    if (!held) return false
    this.#items.delete(item)
    const line = this.#lines.get(held.key)
    line?.delete(item)
    if (line?.size === 0) this.#lines.delete(held.key)
    this.#change(held.key, -held.weight)
    return true
  }

  /** The item is in use, so it becomes the last of its key's items to give way. */
  touch(item: Item): void {
    const held = this.#items.get(item)
    const line = held && this.#lines.get(held.key)
    if (line?.delete(item)) line.add(item)
  }

  /** The longest-idle item of the key that holds the most. */
  first(): Item | undefined {
    const [key] = this.#levels.get(this.#most) ?? []
    const [item] = (key !== undefined && this.#lines.get(key)) || []
    return item
  }

  /**
   * All items in the order in which they give way: each is the first once those before it are gone. Removes nothing.
   * The steps for an item are at most the weight of the one before it.
   */
  *inTurn(): Generator<{ readonly item: Item; readonly weight: number; readonly most: number }> {
    const lines = new Map<string, Iterator<Item>>()
    /** Keys by the weight they would hold without the items so far. */
    const fallen = new Map<number, string[]>()
    for (let most = this.#most; most > 0; most--) {
      for (const keys of [this.#levels.get(most) ?? [], fallen.get(most) ?? []]) {
        for (const key of keys) {
          const line = lines.get(key) ?? (this.#lines.get(key) as Set<Item>).values()
          lines.set(key, line)
          const item = line.next().value as Item
          const { weight } = this.#items.get(item) as Held
          const level = fallen.get(most - weight)
          if (level) level.push(key)
          else fallen.set(most - weight, [key])
          yield { item, weight, most }
        }
      }
    }
  }

  #change(key: string, by: number): void {
    const before = this.of(key)
    const after = before + by
    this.#total += by
    const level = this.#levels.get(before)
    level?.delete(key)
    if (level?.size === 0) this.#levels.delete(before)
    if (after === 0) this.#sums.delete(key)
    else {
      this.#sums.set(key, after)
      const next = this.#levels.get(after)
      if (next) next.add(key)
      else this.#levels.set(after, new Set([key]))
    }
    // At most as many steps as the weight of an item: this key's level is no further down.
    this.#most = Math.max(this.#most, after)
    while (this.#most > 0 && !this.#levels.has(this.#most)) this.#most--
  }
}

/** The account that a place counts for or, for a guest, its source (`sourceOf`). */
export interface Claimant {
  readonly account: string | undefined
  readonly source: string
}

/** Whether a place was taken, and the items that have lost theirs. */
export interface Taken<Item> {
  readonly taken: boolean
  readonly ousted: readonly Item[]
}

/**
 * Places for accounts and guests, with a part reserved for accounts. When none is left, guests give way to an account
 * that will then have no more than the guests of one source. Otherwise, the account or guest source that holds the most
 * gives way to a claimant that will still hold less.
 */
export class Shares<Item> {
  readonly #capacity: number
  readonly #forGuests: number
  readonly #accounts = new Holdings<Item>()
  readonly #guests = new Holdings<Item>()

  constructor(capacity: number, forGuests: number) {
    this.#capacity = capacity
    this.#forGuests = forGuests
  }

  get isFull(): boolean {
    return this.total >= this.#capacity
  }

  get total(): number {
    return this.#accounts.total + this.#guests.total
  }

  /** Whether a place is free, or others would give way. */
  hasRoomFor(claimant: Claimant, weight = 1): boolean {
    return this.#giving(claimant, weight) !== undefined
  }

  /**
   * Takes a place if one is free or others give way, and returns the items that lost theirs. A refusal changes nothing.
   */
  take(item: Item, claimant: Claimant, weight = 1): Taken<Item> {
    const ousted = this.#giving(claimant, weight)
    if (ousted === undefined) return { taken: false, ousted: [] }
    for (const other of ousted) this.leave(other)
    const { account, source } = claimant
    if (account === undefined) this.#guests.add(item, source, weight)
    else this.#accounts.add(item, account, weight)
    return { taken: true, ousted }
  }

  leave(item: Item): void {
    if (!this.#accounts.remove(item)) this.#guests.remove(item)
  }

  /** The item is in use, so others give way before it. */
  touch(item: Item): void {
    this.#accounts.touch(item)
    this.#guests.touch(item)
  }

  /** The items that give way to a claimant; undefined if even all of them are not enough. */
  #giving({ account, source }: Claimant, weight: number): Item[] | undefined {
    const beyond = this.total + weight - this.#capacity
    const isGuest = account === undefined
    const will = weight + (isGuest ? this.#guests.of(source) : this.#accounts.of(account))
    const giving: Item[] = []
    let missing = isGuest ? Math.max(beyond, this.#guests.total + weight - this.#forGuests) : beyond
    const letGo = (holdings: Holdings<Item>, least: number): void => {
      if (missing <= 0) return
      for (const { item, weight, most } of holdings.inTurn()) {
        if (most < least) return
        giving.push(item)
        missing -= weight
        if (missing <= 0) return
      }
    }
    if (isGuest) letGo(this.#guests, will + 1)
    else {
      letGo(this.#guests, will)
      letGo(this.#accounts, will + 1)
    }
    return missing > 0 ? undefined : giving
  }
}

/** The share of connections that may be idle, such as those in their handshake, before they give way to others. */
const IDLE_SHARE = 0.01

/**
 * The connections of a port. When it is full, an idle connection gives way: the longest idle one of the source with the
 * most idle connections, unless the newcomer's source holds more than that source. Otherwise, the oldest connection of
 * the source with the most gives way to a source with fewer. This happens first while only a few are idle: a connection
 * is idle until its first request, and a flood must not close connections that have just arrived.
 */
export class Connected<Item> {
  readonly #most: number
  readonly #all = new Holdings<Item>()
  readonly #idle = new Holdings<Item>()

  constructor(most: number) {
    this.#most = most
  }

  /** Adds an idle connection from an address in the form of `addressKey`. */
  take(item: Item, address: string): Taken<Item> {
    const source = sourceOf(address)
    const ousted: Item[] = []
    if (this.#all.total >= this.#most) {
      const victim = this.#givingWayTo(source)
      if (victim === undefined) return { taken: false, ousted }
      this.leave(victim)
      ousted.push(victim)
    }
    this.#all.add(item, source)
    this.#idle.add(item, source)
    return { taken: true, ousted }
  }

  #givingWayTo(source: string): Item | undefined {
    const own = this.#all.of(source)
    const oldest = this.#all.most > own + 1 ? this.#all.first() : undefined
    const idle = this.#idle.first()
    const holder = idle === undefined ? undefined : this.#idle.keyOf(idle)
    const spare = holder !== undefined && this.#all.of(holder) >= own ? idle : undefined
    return this.#idle.total > this.#most * IDLE_SHARE ? (spare ?? oldest) : (oldest ?? spare)
  }

  /** It now carries a request. */
  busy(item: Item): void {
    this.#idle.remove(item)
  }

  /** It no longer carries a request. */
  idle(item: Item): void {
    const source = this.#all.keyOf(item)
    if (source !== undefined && !this.#idle.has(item)) this.#idle.add(item, source)
  }

  leave(item: Item): void {
    this.#all.remove(item)
    this.#idle.remove(item)
  }
}
