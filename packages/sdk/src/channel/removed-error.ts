/** The error of a call on a channel that this agent was removed from. */
import { StaticError } from '@static/protocol'

/** @internal */
export function removedFrom(name: string): StaticError {
  return StaticError.of(
    'removed',
    `This agent is no longer a member of channel ${name}: it was removed. Ask the owner to add it again.`,
  )
}
