/**
 * Resumes take turns in the store, which works on one call after the other: without turns, messages of all agents wait
 * behind everything that one address asks about. A Resume is not cut into pieces, because what happens between two of
 * them would be missed.
 */
import { networkLimit, networkOf } from '@static/protocol'
import type { AgentId } from '../../ports.ts'
import type { Stream } from '../sessions/stream.ts'

/**
 * Names of channels that the store gets from one address at a time, unless a single Resume has more: one of the largest,
 * or the Resumes of an agent of ours that has 2,000 channels, or those of dozens of agents behind one address.
 */
const MOST_NAMES = 3072
/** What a Resume without ids counts as. Its agent has one at a time, since it may return many more. */
const NAMES_WITHOUT_IDS = 64

/** A Resume that has its turn, or waits for it. */
export interface ResumeTurn {
  readonly stream: Stream
  readonly agent: AgentId
  /** How many channels it names; undefined for all that the agent has. */
  readonly names: number | undefined
  /** Asks the store. Returns false if there is nothing to ask; otherwise `end` must be called after the answer. */
  readonly start: () => boolean
  /** Called instead of `start` if the stream has ended. */
  readonly drop: () => void
}

interface Address {
  names: number
  /** The agents with a Resume without ids in the store, or that is `ready`. */
  readonly unnamed: Set<AgentId>
  /** In their order. */
  readonly waiting: Set<ResumeTurn>
  /** Resumes without ids that were next, but have to wait for another one of their agent: they hold up no one else. */
  readonly held: Map<AgentId, Set<ResumeTurn>>
  /** The first of these, once the other one has ended. They came before all that is in `waiting`. */
  readonly ready: Set<ResumeTurn>
}

interface Network {
  names: number
  readonly most: number
  /** Those that have something waiting or in the store, the last one that had a turn at the end. */
  readonly addresses: Map<string, Address>
  /** Whether `#advance` is at work, and whether something has changed since it began. */
  isAdvancing: boolean
  hasChanged: boolean
}

/** The turns of one node. */
export class ResumeTurns {
  /** By /48, or by IPv4 address. */
  readonly #networks = new Map<string, Network>()

  /** Starts a Resume now, or after others of its address, or of its /48. */
  take(turn: ResumeTurn): void {
    const { address } = turn.stream
    const key = networkOf(address) ?? address
    const most = key === address ? MOST_NAMES : networkLimit(MOST_NAMES)
    const network = this.#networks.get(key) ?? makeNetwork(most)
    this.#networks.set(key, network)
    const own = network.addresses.get(address) ?? makeAddress()
    network.addresses.set(address, own)
    own.waiting.add(turn)
    this.#advance(key, network)
  }

  /** The store has answered. */
  end(turn: ResumeTurn): void {
    const { key, network, own } = this.#find(turn.stream)
    if (!network || !own) return
    count(network, own, turn, -1)
    free(own, turn)
    toEnd(network, turn.stream.address, own)
    this.#advance(key, network)
  }

  /** The stream has ended: forgets what waits on it. */
  closed(stream: Stream): void {
    const { key, network, own } = this.#find(stream)
    if (!network || !own) return
    for (const line of [own.waiting, ...own.held.values(), own.ready]) {
      for (const turn of line) {
        if (turn.stream !== stream) continue
        line.delete(turn)
        if (line === own.ready) free(own, turn)
        turn.drop()
      }
    }
    this.#advance(key, network)
  }

  #find({ address }: Stream): { key: string; network: Network | undefined; own: Address | undefined } {
    const key = networkOf(address) ?? address
    const network = this.#networks.get(key)
    return { key, network, own: network?.addresses.get(address) }
  }

  /**
   * Starts what there is room for. The addresses of a /48 take turns. What is refused instead of started can end its
   * stream, which comes back to here: then the loop goes on, because each would need more of the stack than the last.
   */
  #advance(key: string, network: Network): void {
    network.hasChanged = true
    if (network.isAdvancing) return
    network.isAdvancing = true
    try {
      while (network.hasChanged) {
        network.hasChanged = false
        startAll(network)
      }
    } finally {
      network.isAdvancing = false
    }
    if (network.addresses.size === 0) this.#networks.delete(key)
  }
}

function startAll(network: Network): void {
  for (const [address, own] of network.addresses) {
    const next = nextOf(own)
    if (!next) {
      if (own.names === 0) network.addresses.delete(address)
      continue
    }
    if (!hasRoom(own.names, next, MOST_NAMES)) continue
    if (!hasRoom(network.names, next, network.most)) break
    own.waiting.delete(next)
    own.ready.delete(next)
    // This loop comes to it again.
    toEnd(network, address, own)
    if (next.names === undefined) own.unnamed.add(next.agent)
    if (next.start()) count(network, own, next, 1)
    else free(own, next)
  }
}

/** The next Resume of an address. Those on the way to it whose agent has another one without ids are held. */
function nextOf({ unnamed, waiting, held, ready }: Address): ResumeTurn | undefined {
  for (const turn of ready) return turn
  for (const turn of waiting) {
    if (turn.names !== undefined || !unnamed.has(turn.agent)) return turn
    waiting.delete(turn)
    held.set(turn.agent, (held.get(turn.agent) ?? new Set()).add(turn))
  }
  return undefined
}

/** After a Resume without ids, its agent may have the next one. */
function free({ unnamed, held, ready }: Address, { agent, names }: ResumeTurn): void {
  if (names !== undefined) return
  const line = held.get(agent)
  const [next] = line ?? []
  if (next) {
    line?.delete(next)
    ready.add(next)
    return
  }
  held.delete(agent)
  unnamed.delete(agent)
}

function makeNetwork(most: number): Network {
  return { names: 0, most, addresses: new Map(), isAdvancing: false, hasChanged: false }
}

function makeAddress(): Address {
  return { names: 0, unnamed: new Set(), waiting: new Set(), held: new Map(), ready: new Set() }
}

function weightOf({ names }: ResumeTurn): number {
  return names ?? NAMES_WITHOUT_IDS
}

function hasRoom(taken: number, turn: ResumeTurn, most: number): boolean {
  return taken === 0 || taken + weightOf(turn) <= most
}

function count(network: Network, own: Address, turn: ResumeTurn, sign: 1 | -1): void {
  network.names += sign * weightOf(turn)
  own.names += sign * weightOf(turn)
}

function toEnd({ addresses }: Network, address: string, own: Address): void {
  addresses.delete(address)
  addresses.set(address, own)
}
