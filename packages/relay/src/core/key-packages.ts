/** KeyPackages that wait to be used: in memory only, each given out once. */
import { MAX_KEY_PACKAGES } from '@static/protocol'
import type { AgentId, Time } from '../ports.ts'

/** What all of them may take. */
const POOL_BYTES = 256 * 1024 * 1024

interface Held {
  readonly bytes: Uint8Array
  readonly notAfter: Time
}

/** The pool of one node. */
export class KeyPackages {
  readonly #agents: number
  readonly #bytes: number
  readonly #pool = new Map<AgentId, Held[]>()
  #held = 0

  /** `agents` and `bytes` bound the memory: beyond them the agent that uploaded longest ago is forgotten. */
  constructor(agents: number, bytes: number = POOL_BYTES) {
    this.#agents = agents
    this.#bytes = bytes
  }

  /** Adds one; the same bytes count once, and of too many the oldest go. */
  add(agent: AgentId, bytes: Uint8Array, notAfter: Time): void {
    const held = (this.#pool.get(agent) ?? []).filter((one) => !equal(one.bytes, bytes))
    // Copied: the bytes are a view of the whole request.
    held.push({ bytes: new Uint8Array(bytes), notAfter })
    this.#keep(agent, [])
    this.#keep(agent, held.slice(-MAX_KEY_PACKAGES))
    for (const oldest of this.#pool.keys()) {
      if (this.#pool.size <= this.#agents && this.#held <= this.#bytes) break
      this.#keep(oldest, [])
    }
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

  #fresh(agent: AgentId, now: Time): Held[] {
    const held = this.#pool.get(agent) ?? []
    const fresh = held.filter(({ notAfter }) => notAfter > now)
    if (fresh.length < held.length) this.#keep(agent, fresh)
    return fresh
  }

  #keep(agent: AgentId, held: Held[]): void {
    this.#held += size(held) - size(this.#pool.get(agent) ?? [])
    if (held.length > 0) this.#pool.set(agent, held)
    else this.#pool.delete(agent)
  }
}

function size(held: readonly Held[]): number {
  return held.reduce((sum, { bytes }) => sum + bytes.length, 0)
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at])
}
