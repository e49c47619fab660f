/** How much an agent fetches: a few times the bytes of a file in an hour, so that no one reads it over and over. */
import type { AgentId, Time } from '../../ports.ts'

const HOUR = 3600_000
const TIMES = 4
/** Agents and files remembered. Beyond it, the one counted longest ago is forgotten, which only favors that one. */
const MAX_COUNTED = 100_000

export class Egress {
  readonly #counted = new Map<string, { readonly since: Time; bytes: number }>()

  /** Counts the bytes of a part. Returns 0 if it may go, otherwise the milliseconds until it may. */
  take(agent: AgentId, key: string, bytes: number, total: number, now: Time): number {
    const name = `${agent} ${key}`
    const known = this.#counted.get(name)
    const current = known && now - known.since < HOUR ? known : { since: now, bytes: 0 }
    if (current.bytes + bytes > TIMES * total) return current.since + HOUR - now
    current.bytes += bytes
    this.#counted.delete(name)
    this.#counted.set(name, current)
    if (this.#counted.size > MAX_COUNTED) {
      for (const oldest of this.#counted.keys()) {
        this.#counted.delete(oldest)
        break
      }
    }
    return 0
  }
}
