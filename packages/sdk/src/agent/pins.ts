/**
 * The pinned key of each identity, per channel owner (SPEC.md, 5.3). Only this agent's own actions create pins, because
 * otherwise other members, and agents that join with a multi-use invite, could occupy names. A pin never decides about
 * a received commit, because members with different pins would split the group. A conflict is reported to the
 * application, and refused when this agent adds a member.
 */
import { fromHex, toHex } from '@static/protocol'
import type { Journal } from '../channel/journal.ts'
import type { AgentId, Snapshot } from '../ports/index.ts'

/**
 * The number of identities pinned per owner. No more are pinned beyond it: agents that ask to join choose their names,
 * and earlier pins must stay.
 */
const MOST_PINS = 10_000

/** The pins of one agent. */
export class Pins {
  readonly #known: Map<string, AgentId>
  readonly #counts = new Map<AgentId, number>()
  readonly #journal: Pick<Journal, 'add'>

  constructor(pins: Snapshot['pins'], journal: Pick<Journal, 'add'>) {
    this.#known = new Map(pins.map(({ owner, identity, agent }) => [keyOf(owner, identity), agent]))
    this.#journal = journal
    for (const { owner } of pins) this.#count(owner)
  }

  /** The agent that an identity is pinned to, if it is a different one. */
  conflict(owner: AgentId, identity: Uint8Array, agent: AgentId): AgentId | undefined {
    const known = this.#known.get(keyOf(owner, identity))
    return known === agent ? undefined : known
  }

  /** Whether any identity is pinned to this agent. */
  has(agent: AgentId): boolean {
    return this.#known.values().some((known) => known === agent)
  }

  /** Pins an identity to an agent. */
  set(owner: AgentId, identity: Uint8Array, agent: AgentId): void {
    const key = keyOf(owner, identity)
    const known = this.#known.get(key)
    if (known === agent || (known === undefined && (this.#counts.get(owner) ?? 0) >= MOST_PINS)) return
    if (known === undefined) this.#count(owner)
    this.#known.set(key, agent)
    this.#journal.add({ type: 'putPin', owner, identity, agent })
  }

  /** Another agent owns a channel now: it, and this agent, know the same keys there as before. */
  copy(from: AgentId, to: AgentId): void {
    const prefix = `${from} `
    for (const [key, agent] of this.#known) {
      if (key.startsWith(prefix)) this.#add(to, fromHex(key.slice(prefix.length)), agent)
    }
  }

  /** Pins an identity unless it is pinned. */
  #add(owner: AgentId, identity: Uint8Array, agent: AgentId): void {
    if (!this.#known.has(keyOf(owner, identity))) this.set(owner, identity, agent)
  }

  #count(owner: AgentId): void {
    this.#counts.set(owner, (this.#counts.get(owner) ?? 0) + 1)
  }
}

function keyOf(owner: AgentId, identity: Uint8Array): string {
  return `${owner} ${toHex(identity)}`
}
