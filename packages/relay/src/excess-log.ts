/** Logs when a limit refuses peers or drops their connections: occasionally per limit, not for every peer. */
import type { Logger } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import type { Excess } from './core/sessions/limits.ts'
import type { Time } from './ports.ts'
import type { CutReason } from './transport/http2/limits.ts'

/** Counts the refusals of each limit and logs at most a line per minute and limit. */
export class ExcessLog {
  readonly #log: Pick<Logger, 'warn'>
  readonly #repeats: RepeatLog

  constructor(log: Pick<Logger, 'warn'>, now: () => Time) {
    this.#log = log
    this.#repeats = new RepeatLog(now)
  }

  note({ limit, value, address }: Excess): void {
    // The address is that of the latest peer; `refused` counts all since the last line.
    this.#repeats.note(limit, (refused) =>
      this.#log.warn({ limit: `streams.${limit}`, value, address, refused }, 'limit reached, refusing peers'),
    )
  }

  /** A connection was dropped because its peer exceeded a limit of one connection. */
  cut(address: string, reason: CutReason): void {
    this.#repeats.note(`cut ${reason}`, (dropped) =>
      this.#log.warn({ address, reason, dropped }, 'misused connections dropped'),
    )
  }
}
