/**
 * Resumes take turns in the store, which runs one call after the other: without turns, all agents' messages would wait
 * behind everything that one address asks for. A Resume is not split, because events between its parts would be missed.
 */
import { networkLimit, networkOf } from '@static/protocol'
import type { AgentId } from '../../ports.ts'
import type { Stream } from '../sessions/stream.ts'

/**
 * Number of channel ids in the store from one address at a time, unless a single Resume has more: enough for one of the
 * largest, for the Resumes of an agent with 2,000 channels, or for dozens of agents behind one address.
 */
const MOST_NAMES = 3072
/** What a Resume without ids counts as. Each agent has one at a time, because it may return many more. */
const NAMES_WITHOUT_IDS = 64

/** A Resume that has its turn or waits for it. */
export interface ResumeTurn {
  readonly stream: Stream
  readonly agent: AgentId
  /** How many channels it names; undefined for all of the agent's channels. */
  readonly names: number | undefined
  /** Queries the store. Returns false if there is nothing to query; otherwise `end` must be called after the answer. */
  readonly start: () => boolean
  /** Called instead of `start` if the stream has ended. */
  readonly drop: () => void
}

interface Address {
  names: number
  /** The agents whose Resume without ids is in the store or `ready`. */
  readonly unnamed: Set<AgentId>
  /** In order of arrival. */
  readonly waiting: Set<ResumeTurn>
  /** Resumes without ids that were next but must wait for another one of the same agent: they hold up no one else. */
  readonly held: Map<AgentId, Set<ResumeTurn>>
  /** The first of these, once the other one has ended. They came before everything in `waiting`. */
  readonly ready: Set<ResumeTurn>
}

interface Network {
  names: number
  readonly most: number
  /** Addresses with something waiting or in the store, ordered by their last turn. */
  readonly addresses: Map<string, Address>
  /** Whether `#advance` is running, and whether anything has changed since it began. */
  isAdvancing: boolean
  hasChanged: boolean
}

export class ResumeTurns {
  /** By /48, or by IPv4 address. */
  readonly #networks = new Map<string, Network>()

  /** Starts a Resume now, or after others from its address or its /48. */
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

  /** Called when the store has answered. */
  end(turn: ResumeTurn): void {
    const { key, network, own } = this.#find(turn.stream)
    if (!network || !own) return
    count(network, own, turn, -1)
    free(own, turn)
    toEnd(network, turn.stream.address, own)
    this.#advance(key, network)
  }

  /** Called when the stream has ended: forgets what waits on it. */
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
   * Starts as many as there is room for. The addresses of a /48 take turns. Refusing a Resume can end its stream, which
   * calls this again: the loop then continues instead, because recursion would use more stack with each.
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
    // The loop will reach it again.
    toEnd(network, address, own)
    if (next.names === undefined) own.unnamed.add(next.agent)
    if (next.start()) count(network, own, next, 1)
    else free(own, next)
  }
}

/** The next Resume of an address. Skips and holds those whose agent already has another one without ids. */
function nextOf({ unnamed, waiting, held, ready }: Address): ResumeTurn | undefined {
  for (const turn of ready) return turn
  for (const turn of waiting) {
    if (turn.names !== undefined || !unnamed.has(turn.agent)) return turn
    waiting.delete(turn)
    held.set(turn.agent, (held.get(turn.agent) ?? new Set()).add(turn))
  }
  return undefined
}

/** After a Resume without ids, lets its agent have the next one. */
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
