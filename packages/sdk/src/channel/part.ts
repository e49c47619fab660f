/** The view of a channel that every part of a membership gets, and what a part can ask of its turn. */
import type { ChannelName, StaticError } from '@static/protocol'
import type { AgentId, ChannelId } from '../ports/index.ts'
import type { GroupState } from './group-state.ts'
import type { History } from './log/history.ts'

/** The constant properties of a channel. */
export interface ChannelFacts {
  readonly id: ChannelId
  readonly channelId: Uint8Array
  readonly name: ChannelName
  readonly owner: AgentId
}

/** A channel as its parts see it. */
export interface ChannelView extends ChannelFacts {
  readonly history: History
  readonly group: GroupState | undefined
}

/** The turn: changes are made in memory, written to disk at its end, and only then sent. */
export interface Turn {
  /** Marks something as changed, so that it is written at the end of the turn. */
  touch(): void
  /** The same for a change that may be written later, because a crash may undo it. */
  touchLater(): void
  /** Continues with everything that can continue. */
  work(): void
  /** Ends the channel, because it cannot continue. */
  break(error: StaticError): void
}

/** Gives a task exclusive access to the group. */
export interface Exclusive {
  /** Nothing else touches the group until the task is done. */
  exclusively(task: () => Promise<void>): void
}
