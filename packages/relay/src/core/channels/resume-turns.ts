/**
 * Resumes take turns in the store, which works on one call after the other: without turns, messages of all agents wait
 * behind everything that one address asks about. A Resume is not cut into pieces, because what happens between two of
 * them would be missed.
 */
import { networkLimit, networkOf } from '@static/protocol'
import type { AgentId } from '../../ports.ts'
import type { Stream } from '../stream.ts'

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
  /** The agents with a Resume without ids in the store. */
  readonly unnamed: Set<AgentId>
  /** In their order. */
  readonly waiting: Set<ResumeTurn>
}

interface Network {
  names: number
  readonly most: number
  /** Those that have something waiting or in the store, the last one that had a turn at the end. */
  readonly addresses: Map<string, Address>
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
    const network = this.#networks.get(key) ?? { names: 0, most, addresses: new Map() }
    this.#networks.set(key, network)
    const own: Address = network.addresses.get(address) ?? { names: 0, unnamed: new Set(), waiting: new Set() }
    network.addresses.set(address, own)
    own.waiting.add(turn)
    this.#advance(key, network)
  }

  /** The store has answered. */
  end(turn: ResumeTurn): void {
    const { key, network, own } = this.#find(turn.stream)
    if (!network || !own) return
    count(network, own, turn, -1)
    if (turn.names === undefined) own.unnamed.delete(turn.agent)
    toEnd(network, turn.stream.address, own)
    this.#advance(key, network)
  }

  /** The stream has ended: forgets what waits on it. */
  closed(stream: Stream): void {
    const { key, network, own } = this.#find(stream)
    if (!network || !own) return
    for (const turn of own.waiting) {
      if (turn.stream !== stream) continue
      own.waiting.delete(turn)
      turn.drop()
    }
    this.#advance(key, network)
  }

  #find({ address }: Stream): { key: string; network: Network | undefined; own: Address | undefined } {
    const key = networkOf(address) ?? address
    const network = this.#networks.get(key)
    return { key, network, own: network?.addresses.get(address) }
  }

  /** Starts what there is room for. The addresses of a /48 take turns. */
  #advance(key: string, network: Network): void {
    for (const [address, own] of network.addresses) {
      const [next] = own.waiting
      if (!next) {
        if (own.names === 0) network.addresses.delete(address)
        continue
      }
      if (own.unnamed.has(next.agent) && next.names === undefined) continue
      if (!hasRoom(own.names, next, MOST_NAMES)) continue
      if (!hasRoom(network.names, next, network.most)) break
      own.waiting.delete(next)
      // This loop comes to it again.
      toEnd(network, address, own)
      if (!next.start()) continue
      count(network, own, next, 1)
      if (next.names === undefined) own.unnamed.add(next.agent)
    }
    if (network.addresses.size === 0) this.#networks.delete(key)
  }
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
