/** A channel record with the version it was read at. */
import type { Channel } from '../../ledger/state.ts'

/** A channel as it is in the database, or as the current transaction has changed it. */
export interface Kept {
  readonly channel: Channel
  version: number
  /** When its members were read, by the monotonic clock: acknowledgements do not raise the version. */
  membersAt: number
}
