/**
 * The pinned key of each identity, per channel owner (SPEC.md, 5.3). Only this agent's own actions create pins, because
 * otherwise other members, and agents that join with a multi-use invite, could occupy names. A pin never decides about
 * a received commit, because members with different pins would split the group. A conflict is reported to the
 * application, and refused when this agent adds a member.
 */
import { toHex } from '@static/protocol'
import type { Journal } from '../channel/journal.ts'
import type { Member } from '../mls/index.ts'
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

  /**
   * Another agent owns a channel now: this agent knows the same keys of its members as before. The former owner's other
   * pins are of its other channels, and would fill the room of the new one.
   */
  copy(from: AgentId, to: AgentId, members: Iterable<Pick<Member, 'agentId' | 'identity'>>): void {
    for (const { agentId, identity } of members) {
      const isPinned = this.#known.get(keyOf(from, identity)) === toHex(agentId)
      if (isPinned && !this.#known.has(keyOf(to, identity))) this.set(to, identity, toHex(agentId))
    }
  }

  #count(owner: AgentId): void {
    this.#counts.set(owner, (this.#counts.get(owner) ?? 0) + 1)
  }
}

function keyOf(owner: AgentId, identity: Uint8Array): string {
  return `${owner} ${toHex(identity)}`
}
