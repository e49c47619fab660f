/**
 * The interface of a channel's parts. Each part overrides the methods it needs; the defaults do nothing.
 * `AgentChannel.parts` defines the one order in which they are called (channel.ts).
 */
import type { StaticError } from '@static/protocol'
import type { AgentId, Change } from '../ports/index.ts'

/** How an adopted commit changed the members. */
export interface RosterChange {
  /** The member that committed. */
  readonly by: AgentId
  readonly added: readonly AgentId[]
  readonly removed: readonly AgentId[]
  /** How many of the removed members had left. */
  readonly left: number
  /** The added members that this agent, as the owner, vouches for. */
  readonly vouched: readonly AgentId[]
  /** The former owner, if the commit has made another agent the owner. */
  readonly formerOwner?: AgentId | undefined
  /** The added members that asked this agent to join, with an invite. */
  readonly byInvite?: readonly AgentId[]
}

/** A part of a channel. */
export abstract class Part {
  /** Returns the changes since the last call, for the transaction of this turn. `whole`: the entire epoch is written. */
  drain(_whole: boolean): readonly Change[] {
    return []
  }

  /** Everything drained is on disk. */
  written(): void {}

  /** The relay delivers the channel from now on. */
  resumed(): void {}

  /** The session is lost. */
  lose(): void {}

  /** The members have changed. */
  change(_change: RosterChange): void {}

  /** The channel ends: pending calls get `error`; readers get `forReaders` or, without one, the end. */
  end(_error: StaticError, _forReaders: StaticError | undefined): void {}

  /** The agent stops: nothing more is given to the application. */
  seal(): void {}
}
