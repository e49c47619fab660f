/** What the sweep works on in SQLite. */
import { toHex } from '@static/protocol'
import type { ChannelId, Time } from '../../../ports.ts'
import type { DueRows, OldWelcome } from '../../ledger/rows/due.ts'
import { isDamage } from '../damage.ts'
import type { Statements } from '../statements.ts'

/** Maximum number of damaged channels that the sweep leaves out. */
const MAX_UNSOUND = 1000

/** The due channels and Welcomes of an open database. */
export class SqliteDueRows implements DueRows {
  readonly #statements: Statements
  readonly #store: () => void
  readonly #onDamage: ((error: unknown) => void) | undefined
  /** The channel that is being swept, and those that cannot be. */
  #swept: ChannelId | undefined
  readonly #unsound = new Set<ChannelId>()

  /** `store` writes the rows that are behind the log. */
  constructor(statements: Statements, store: () => void, onDamage: ((error: unknown) => void) | undefined) {
    this.#statements = statements
    this.#store = store
    this.#onDamage = onDamage
  }

  /** Without those that the sweep found damaged. */
  *channels(now: Time, limit: number): Iterable<ChannelId> {
    this.#store()
    const rows = this.#statements.dueChannels.all(now, limit + this.#unsound.size) as unknown as [Uint8Array][]
    const ids = rows.map(([id]) => toHex(id)).filter((id) => !this.#unsound.has(id))
    for (const id of ids.slice(0, limit)) {
      this.#swept = id
      yield id
      this.#swept = undefined
    }
  }

  welcomes(since: Time, limit: number): readonly OldWelcome[] {
    const rows = this.#statements.oldWelcomes.all(since, limit) as unknown as [Uint8Array, Uint8Array][]
    return rows.map(([channel, agent]) => ({ channel: toHex(channel), agent: toHex(agent) }))
  }

  /** Leaves the channel that is being swept out of later sweeps, if it is damaged. */
  leaveOut(error: unknown): boolean {
    if (this.#swept === undefined || !isDamage(error) || this.#unsound.size >= MAX_UNSOUND) return false
    this.#unsound.add(this.#swept)
    this.#onDamage?.(error)
    return true
  }

  /** The transaction was rolled back: nothing is being swept. */
  restart(): void {
    this.#swept = undefined
  }
}
