/** Compares the relay's answer to Resume with the agent's own position in a channel (SPEC.md, 5.2). */
import { ERRORS, StaticError } from '@static/protocol'
import type { ChannelState } from '@static/protocol/relay'
import { same } from '../../platform/bytes.ts'
import type { PositionRecord } from '../../ports/index.ts'

/**
 * Returns an error if the relay's answer contradicts the agent's own state. `counter` is the counter of the agent's
 * last message.
 */
export function contradiction(
  { lastCounter, lastIndex, head, cursor }: ChannelState,
  { index, hash, slot }: PositionRecord,
  counter: number,
): StaticError | undefined {
  const acknowledged = Number(cursor?.index ?? 0n)
  if (Number(lastCounter) > counter || acknowledged > index) {
    const relay = `${lastCounter} messages sent and entry ${acknowledged} read`
    return rolledBack(relay, `${counter} messages sent and entry ${index} read`)
  }
  if (Number(lastIndex) < index || Number(head) < slot) {
    const ends = `it ends at entry ${lastIndex} and slot ${head}`
    return relayRolledBack(`${ends}, but this agent has read entry ${index} and slot ${slot}`)
  }
  if (acknowledged === index && !same(cursor?.hash ?? new Uint8Array(), hash)) {
    return relayRolledBack(`it differs from what the relay delivered, up to entry ${index}`)
  }
  return undefined
}

/** The error for a relay that no longer has entries it delivered or accepted. */
export function relayRolledBack(evidence: string): StaticError {
  const { remedy } = ERRORS.relay_rolled_back
  return StaticError.of('relay_rolled_back', `The relay has lost part of this channel’s log: ${evidence}. ${remedy}`)
}

/** The error for a data directory older than what the relay has received from this agent. */
export function rolledBack(relay: string, here: string): StaticError {
  const { remedy } = ERRORS.store_rolled_back
  const problem = 'The data directory was replaced by an older copy'
  return StaticError.of(
    'store_rolled_back',
    `${problem}: the relay has ${relay}, the data directory ${here}. ${remedy}`,
  )
}

/** Whether the relay describes a later membership: this agent was removed and added again while it was offline. */
export function isLaterStay({ addedIndex }: ChannelState, index: number): boolean {
  return Number(addedIndex) > index
}
