/** Logs that a limit refuses peers: occasionally for each limit, not for every peer. */
import type { Logger } from '@static/node/logger'
import type { Excess, StreamLimit } from './core/limits.ts'
import type { Time } from './ports.ts'

const WINDOW_MS = 60_000

/** Counts the refusals of each limit and logs at most a line per minute and limit. */
export class ExcessLog {
  readonly #log: Pick<Logger, 'warn'>
  readonly #now: () => Time
  readonly #limits = new Map<StreamLimit, { readonly at: Time; refused: number }>()

  constructor(log: Pick<Logger, 'warn'>, now: () => Time) {
    this.#log = log
    this.#now = now
  }

  note({ limit, value, address }: Excess): void {
    const now = this.#now()
    const last = this.#limits.get(limit)
    if (last && now - last.at < WINDOW_MS) {
      last.refused++
      return
    }
    this.#limits.set(limit, { at: now, refused: 0 })
    // The address is the one refused now; `refused` counts all since the last line.
    const fields = { limit: `streams.${limit}`, value, address, refused: 1 + (last?.refused ?? 0) }
    this.#log.warn(fields, 'limit reached, refusing peers')
  }
}
