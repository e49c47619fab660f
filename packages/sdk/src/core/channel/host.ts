/** What every part of a membership may know of its channel, and ask of the turn that it works in. */
import type { ChannelName, StaticError } from '@static/protocol'
import type { AgentId, ChannelId } from '../../ports.ts'
import type { GroupState } from './group-state.ts'
import type { History } from './history.ts'

/** What never changes about a channel. */
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

/** The turn: everything that changes is in memory first, on disk at its end, and sent after that. */
export interface Turn {
  /** Something has changed: it is written at the end of the turn. */
  touch(): void
  /** The same for a change that nobody waits for and that a crash may undo. */
  touchLater(): void
  /** Continues with whatever can continue. */
  work(): void
  /** The channel cannot continue. */
  break(error: StaticError): void
}

/** Lets a task have the group to itself. */
export interface Exclusive {
  /** Nothing else touches the group until the task is over. */
  exclusively(task: () => Promise<void>): void
}
