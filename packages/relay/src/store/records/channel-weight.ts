/** How much memory a channel's record takes, for the caches of engines. */
import type { Channel } from '../ledger/state.ts'

/** The approximate size of the parts of a record, in bytes. It differs by engine. */
export interface PartBytes {
  readonly channel: number
  readonly member: number
  readonly former: number
  readonly sender: number
  readonly position: number
}

/** The approximate size of a record, in bytes. */
export function weighChannel({ members, former, senders, recent }: Channel, part: PartBytes): number {
  const people = members.size * part.member + former.size * part.former + senders.size * part.sender
  return part.channel + people + recent.length * part.position
}
