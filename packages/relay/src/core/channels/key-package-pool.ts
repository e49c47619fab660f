/**
 * KeyPackages that wait to be used: in memory only, each given out once. The memory is shared out by account: when it is
 * full the account that holds most loses first, so that nobody can push out the KeyPackages of others.
 */
import { MAX_KEY_PACKAGES } from '@static/protocol'
import type { Account, AgentId, Time } from '../../ports.ts'

/** What all of them may take. */
const POOL_BYTES = 256 * 1024 * 1024

/** One that waits. */
export interface PooledKeyPackage {
  readonly bytes: Uint8Array
  /** Tells it apart from the others of its agent. */
  readonly hash: string
  readonly notAfter: Time
}

interface Share {
  bytes: number
  /** Whoever uploaded longest ago comes first. */
  readonly agents: Map<AgentId, PooledKeyPackage[]>
}

/** The pool of one node. */
export class KeyPackagePool {
  readonly #agents: number
  readonly #bytes: number
  readonly #shares = new Map<string, Share>()
  readonly #accountOf = new Map<AgentId, string>()
  #held = 0

  /** `agents` and `bytes` bound the memory. */
  constructor(agents: number, bytes: number = POOL_BYTES) {
    this.#agents = agents
    this.#bytes = bytes
  }

  /** Adds some of one agent; the same bytes count once, and of too many the oldest go. Gives who lost all theirs. */
  add(account: Account, agent: AgentId, added: readonly PooledKeyPackage[]): AgentId[] {
    const known = this.#of(agent).filter(({ hash }) => !added.some((one) => one.hash === hash))
    const held = [...known, ...added].slice(-MAX_KEY_PACKAGES)
    this.#keep(agent, [])
    this.#accountOf.set(agent, `${account.mode}/${account.id}`)
    this.#keep(agent, held)
    const evicted: AgentId[] = []
    while (this.#accountOf.size > this.#agents || this.#held > this.#bytes) {
      const loser = this.#loser()
      if (loser === undefined) break
      this.#keep(loser, [])
      evicted.push(loser)
    }
    return evicted
  }

  /** Takes one out that is still good. */
  take(agent: AgentId, now: Time): Uint8Array | undefined {
    const [first, ...rest] = this.#fresh(agent, now)
    this.#keep(agent, rest)
    return first?.bytes
  }

  /** How many are there. */
  held(agent: AgentId, now: Time): number {
    return this.#fresh(agent, now).length
  }

  #of(agent: AgentId): PooledKeyPackage[] {
    const account = this.#accountOf.get(agent)
    return (account === undefined ? undefined : this.#shares.get(account)?.agents.get(agent)) ?? []
  }

  #fresh(agent: AgentId, now: Time): PooledKeyPackage[] {
    const held = this.#of(agent)
    const fresh = held.filter(({ notAfter }) => notAfter > now)
    if (fresh.length < held.length) this.#keep(agent, fresh)
    return fresh
  }

  /** The agent of the greatest share that uploaded longest ago. */
  #loser(): AgentId | undefined {
    let greatest: Share | undefined
    for (const share of this.#shares.values()) if (!greatest || share.bytes > greatest.bytes) greatest = share
    return greatest?.agents.keys().next().value
  }

  #keep(agent: AgentId, held: PooledKeyPackage[]): void {
    const account = this.#accountOf.get(agent)
    if (account === undefined) return
    const share = this.#shares.get(account) ?? { bytes: 0, agents: new Map<AgentId, PooledKeyPackage[]>() }
    const change = size(held) - size(share.agents.get(agent) ?? [])
    share.bytes += change
    this.#held += change
    if (held.length > 0) {
      share.agents.set(agent, held)
      this.#shares.set(account, share)
      return
    }
    share.agents.delete(agent)
    this.#accountOf.delete(agent)
    if (share.agents.size === 0) this.#shares.delete(account)
  }
}

function size(held: readonly PooledKeyPackage[]): number {
  return held.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
