/** A channel record with the version it was read at. */
import type { Channel } from '../../ledger/state.ts'

/** A channel as stored in the database, or as changed by the current transaction. */
export interface Kept {
  readonly channel: Channel
  version: number
  /** When its members were read, by the monotonic clock: acknowledgements do not raise the version. */
  membersAt: number
}
