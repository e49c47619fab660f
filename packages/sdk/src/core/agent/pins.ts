/**
 * Which key an identity has, per owner of channels (SPEC.md, 5.4). A pin never decides about a received commit: members
 * with different pins would split the group. It tells the application, and it is asked before a member is added.
 */
import { toHex } from '@static/protocol'
import type { AgentId, Change, Snapshot } from '../../ports.ts'

/** The pins of one agent. */
export class Pins {
  readonly #known: Map<string, AgentId>
  readonly #write: (change: Change) => void

  constructor(pins: Snapshot['pins'], write: (change: Change) => void) {
    this.#known = new Map(pins.map(({ owner, identity, agent }) => [keyOf(owner, identity), agent]))
    this.#write = write
  }

  /** The agent that an identity was known by, if it is another one. */
  conflict(owner: AgentId, identity: Uint8Array, agent: AgentId): AgentId | undefined {
    const known = this.#known.get(keyOf(owner, identity))
    return known === agent ? undefined : known
  }

  /** Whether an agent was ever met. */
  has(agent: AgentId): boolean {
    return this.#known.values().some((known) => known === agent)
  }

  /** From now on the identity has this key. */
  set(owner: AgentId, identity: Uint8Array, agent: AgentId): void {
    const key = keyOf(owner, identity)
    if (this.#known.get(key) === agent) return
    this.#known.set(key, agent)
    this.#write({ type: 'putPin', owner, identity, agent })
  }
}

function keyOf(owner: AgentId, identity: Uint8Array): string {
  return `${owner} ${toHex(identity)}`
}
