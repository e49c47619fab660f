/** What the relay says at Resume about an agent's place in a channel, compared with what the agent knows (SPEC.md, 5.2). */
import { StaticError } from '@static/protocol'
import type { ChannelState } from '@static/protocol/relay'
import type { PositionRecord } from '../../ports.ts'
import { same } from '../bytes.ts'

/**
 * How the relay's account contradicts the agent's own; undefined when it does not. `counter` is that of the agent's last
 * message.
 */
export function contradiction(
  { lastCounter, lastIndex, head, cursor }: ChannelState,
  { index, hash, slot }: PositionRecord,
  counter: number,
): StaticError | undefined {
  const acknowledged = Number(cursor?.index ?? 0n)
  if (Number(lastCounter) > counter || acknowledged > index) return StaticError.of('store_rolled_back')
  if (Number(lastIndex) < index || Number(head) < slot) {
    return StaticError.of('mls_error', 'The relay has lost a part of the log.')
  }
  if (acknowledged === index && !same(cursor?.hash ?? new Uint8Array(), hash)) {
    return StaticError.of('mls_error', 'The relay holds another log than it has delivered.')
  }
  return undefined
}

/** Whether the relay speaks of a later stay: this agent was removed and added again while it was away. */
export function isLaterStay({ addedIndex }: ChannelState, index: number): boolean {
  return Number(addedIndex) > index
}
