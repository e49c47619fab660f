/**
 * Which agents have used which account, and when they were last seen: the account's owner sees it in the console. Kept
 * in memory only, since this node started, and bounded.
 */
import type { OverviewAgent } from '@static/protocol'
import type { Account, AgentId, Time } from '../../ports.ts'

/** An agent of an account. */
export interface SeenAgent {
  readonly agent: AgentId
  readonly account: Account
  /** The identity in its KeyPackages; undefined until it has uploaded some. */
  name: string | undefined
  /** By the wall clock. */
  seenAt: Time
}

const MAX_AGENTS = 10_000
const MAX_AGENTS_PER_ACCOUNT = 200
/** Busy agents are recorded at most this often. */
const STEP_MS = 1000
const MAX_NAME = 64
/** Characters that a terminal or a page could interpret instead of showing. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu

/** The agents that one node has seen, by account. */
export class Presence {
  /** Both levels are ordered by last use. */
  readonly #accounts = new Map<string, Map<AgentId, SeenAgent>>()
  #size = 0

  /** Called when an agent has made a request or its session has ended. */
  saw(agent: AgentId, account: Account, now: Time): void {
    const known = this.#accounts.get(account.id)?.get(agent)
    if (known && known.account.mode === account.mode && Math.abs(now - known.seenAt) < STEP_MS) return
    this.#put({ agent, account, name: known?.name, seenAt: now })
  }

  /** Called when an agent has shown the identity that it gave itself. */
  named(agent: AgentId, account: Account, identity: Uint8Array, now: Time): void {
    this.#put({ agent, account, name: textOf(identity), seenAt: now })
  }

  /** The agents of an account, last seen first. */
  of(account: string): readonly SeenAgent[] {
    return [...(this.#accounts.get(account)?.values() ?? [])].toReversed()
  }

  /** The same as reported to the API, connected ones first. */
  overview(account: string, isConnected: (agent: AgentId) => boolean, now: Time): OverviewAgent[] {
    const agents = this.of(account).map(({ agent, account: { mode }, name = null, seenAt }) => {
      const connected = isConnected(agent)
      const at = new Date(connected ? now : seenAt).toISOString()
      return { id: agent, mode, name, connected, last_seen_at: at }
    })
    return [...agents.filter(({ connected }) => connected), ...agents.filter(({ connected }) => !connected)]
  }

  #put(seen: SeenAgent): void {
    const { id } = seen.account
    const own = this.#accounts.get(id) ?? new Map<AgentId, SeenAgent>()
    this.#accounts.delete(id)
    this.#accounts.set(id, own)
    if (own.delete(seen.agent)) this.#size--
    own.set(seen.agent, seen)
    this.#size++
    if (own.size > MAX_AGENTS_PER_ACCOUNT) this.#dropOldest(id, own)
    if (this.#size <= MAX_AGENTS) return
    for (const [oldest, agents] of this.#accounts) {
      this.#dropOldest(oldest, agents)
      return
    }
  }

  #dropOldest(account: string, agents: Map<AgentId, SeenAgent>): void {
    for (const agent of agents.keys()) {
      agents.delete(agent)
      this.#size--
      break
    }
    if (agents.size === 0) this.#accounts.delete(account)
  }
}

/** An identity may be any bytes. */
function textOf(identity: Uint8Array): string | undefined {
  const text = new TextDecoder().decode(identity).replace(UNPRINTABLE, '').trim()
  return text === '' ? undefined : Array.from(text).slice(0, MAX_NAME).join('')
}
