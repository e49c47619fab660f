/**
 * KeyPackages waiting to be claimed: in memory only, each handed out once. Memory is shared between accounts: when it
 * is full, the account that uses the most loses KeyPackages first, so that no account can evict those of others.
 */
import { MAX_KEY_PACKAGES } from '@static/protocol'
import { type Account, accountKey, type AgentId, type Time } from '../../ports.ts'

/** The memory limit for all KeyPackages. An agent's 16 take 24 KB. */
const POOL_BYTES = 1024 * 1024 * 1024

/** A KeyPackage waiting to be claimed. */
export interface PooledKeyPackage {
  readonly bytes: Uint8Array
  /** Identifies it among those of its agent. */
  readonly hash: string
  readonly notAfter: Time
}

interface Share {
  bytes: number
  /** Ordered by last upload, oldest first. */
  readonly agents: Map<AgentId, PooledKeyPackage[]>
}

export class KeyPackagePool {
  readonly #agents: number
  readonly #bytes: number
  readonly #shares = new Map<string, Share>()
  readonly #accountOf = new Map<AgentId, Account>()
  #held = 0

  /** `agents` and `bytes` limit the memory. */
  constructor(agents: number, bytes: number = POOL_BYTES) {
    this.#agents = agents
    this.#bytes = bytes
  }

  /**
   * Adds KeyPackages of one agent, newer or older than those held. Drops duplicates and the oldest surplus. Returns the
   * agents that lost all of theirs.
   */
  add(
    account: Account,
    agent: AgentId,
    added: readonly PooledKeyPackage[],
    age: 'newer' | 'older' = 'newer',
  ): AgentId[] {
    const known = this.#of(agent).filter(({ hash }) => !added.some((one) => one.hash === hash))
    const held = (age === 'newer' ? [...known, ...added] : [...added, ...known]).slice(-MAX_KEY_PACKAGES)
    this.#keep(agent, [])
    this.#accountOf.set(agent, account)
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

  /** Removes and returns all of an agent, with its account. */
  release(
    agent: AgentId,
    now: Time,
  ): { readonly account: Account; readonly keyPackages: readonly PooledKeyPackage[] } | undefined {
    const account = this.#accountOf.get(agent)
    const keyPackages = this.#fresh(agent, now)
    this.#keep(agent, [])
    return account && { account, keyPackages }
  }

  /** Removes and returns one that has not expired. */
  take(agent: AgentId, now: Time): Uint8Array | undefined {
    const [first, ...rest] = this.#fresh(agent, now)
    this.#keep(agent, rest)
    return first?.bytes
  }

  /** The account of an agent and what is held for it; undefined if there is nothing. */
  supply(
    agent: AgentId,
    now: Time,
  ): { readonly account: Account; readonly held: number; readonly newest: string } | undefined {
    const fresh = this.#fresh(agent, now)
    const account = this.#accountOf.get(agent)
    const newest = fresh.at(-1)
    return account && newest && { account, held: fresh.length, newest: newest.hash }
  }

  /** The number of KeyPackages that have not expired. */
  held(agent: AgentId, now: Time): number {
    return this.#fresh(agent, now).length
  }

  #of(agent: AgentId): PooledKeyPackage[] {
    const account = this.#accountOf.get(agent)
    return (account && this.#shares.get(accountKey(account))?.agents.get(agent)) ?? []
  }

  #fresh(agent: AgentId, now: Time): PooledKeyPackage[] {
    const held = this.#of(agent)
    const fresh = held.filter(({ notAfter }) => notAfter > now)
    if (fresh.length < held.length) this.#keep(agent, fresh)
    return fresh
  }

  /** The agent with the oldest last upload, in the largest share. */
  #loser(): AgentId | undefined {
    let greatest: Share | undefined
    for (const share of this.#shares.values()) if (!greatest || share.bytes > greatest.bytes) greatest = share
    return greatest?.agents.keys().next().value
  }

  #keep(agent: AgentId, held: PooledKeyPackage[]): void {
    const account = this.#accountOf.get(agent)
    if (account === undefined) return
    const key = accountKey(account)
    const share = this.#shares.get(key) ?? { bytes: 0, agents: new Map<AgentId, PooledKeyPackage[]>() }
    const change = size(held) - size(share.agents.get(agent) ?? [])
    share.bytes += change
    this.#held += change
    if (held.length > 0) {
      share.agents.set(agent, held)
      this.#shares.set(key, share)
      return
    }
    share.agents.delete(agent)
    this.#accountOf.delete(agent)
    if (share.agents.size === 0) this.#shares.delete(key)
  }
}

function size(held: readonly PooledKeyPackage[]): number {
  return held.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
