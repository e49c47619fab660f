/** Counts and logs damage in the database: one line a minute for each damaged row, however often it is read. */
import type { Logger } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'

export class DamageLog {
  readonly #log: Pick<Logger, 'error'>
  readonly #repeats = new RepeatLog(() => performance.now())
  #count = 0

  constructor(log: Pick<Logger, 'error'>) {
    this.#log = log
  }

  /** How often damage was found. */
  get count(): number {
    return this.#count
  }

  note(err: Error, fields: { readonly request_id?: string } = {}): void {
    this.#count++
    this.#repeats.note(err.message, (times) => this.#log.error({ err, times, ...fields }, 'the database is damaged'))
  }
}
