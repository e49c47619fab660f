/** Ids of messages and commits in SQLite. */
import type { Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import type { Answered, IdKey, IdRows } from '../../ledger/rows/ids.ts'
import type { Channel } from '../../ledger/state.ts'
import { idKey, LAST_ID } from './keys.ts'
import type { Statements } from '../statements.ts'

/** Maximum number of ids that one sweep visits. */
const SWEEP_ROWS = 2048
/** How long ids may outlive their expiry, so that a round finds many. */
const ROUND_PAUSE_MS = 3600_000
const NOTHING: Uint8Array = new Uint8Array()

/** The ids of an open database. */
export class SqliteIdRows implements IdRows {
  readonly #statements: Statements
  /** The current round through the ids: its position, the oldest id it left, and when the next round starts. */
  #round = { after: NOTHING, oldest: Infinity, start: 0 }

  constructor(statements: Statements) {
    this.#statements = statements
  }

  find({ number }: Channel, key: IdKey, since: Time): Answered | undefined {
    return this.#answered(idKey(number, key), since)
  }

  add({ number }: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    const bytes = idKey(number, key)
    const row = sealed([bytes, answer.index, answer.head, answer.at])
    const { changes } = this.#statements.addId.run(...row, since)
    return Number(changes) > 0 ? undefined : this.#answered(bytes, since)
  }

  /** Visits all ids in rounds: an index by time would cost every message more than this costs the sweep. */
  expire(since: Time): void {
    const { nextIds, oldestId, dropIds } = this.#statements
    const round = this.#round
    if (since < round.start) return
    const [through = LAST_ID] = (nextIds.get(round.after, SWEEP_ROWS - 1) as [Uint8Array] | undefined) ?? []
    dropIds.run(round.after, through, since)
    const [oldest] = oldestId.get(round.after, through) as unknown as [number | null]
    round.oldest = Math.min(round.oldest, oldest ?? Infinity)
    round.after = through
    if (through !== LAST_ID) return
    // Ids added from now on are younger than `since`.
    const start = Math.min(round.oldest, since) + ROUND_PAUSE_MS
    this.#round = { after: NOTHING, oldest: Infinity, start }
  }

  /** Begins a new round, because the transaction of the last one was rolled back. */
  restart(): void {
    this.#round = { after: NOTHING, oldest: Infinity, start: 0 }
  }

  #answered(key: Uint8Array, since: Time): Answered | undefined {
    const row = this.#statements.findId.get(key)
    if (!row) return undefined
    const [, index, head, at] = intact(row, 'a message id') as [Uint8Array, number, number, number]
    return at > since ? { index, head } : undefined
  }
}
