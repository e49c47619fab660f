/** Events in the channels of a store, for the parts that notify agents. */
import type { AgentId, ChannelId, Entry } from './log.ts'

/** An event in a channel, on any node: the source of every push. Emitted once it is durable. */
export type StoreEvent =
  | { readonly type: 'appended'; readonly channel: ChannelId; readonly entry: Entry }
  /** A Welcome is waiting for an agent. `inviteId` (hexadecimal) is empty if it did not use an invite. */
  | { readonly type: 'welcomed'; readonly channel: ChannelId; readonly agent: AgentId; readonly inviteId: string }
  | {
      readonly type: 'rejected'
      readonly channel: ChannelId
      readonly slot: number
      readonly sender: AgentId
      readonly undoneAdds: readonly AgentId[]
      readonly undoneRemoves: readonly AgentId[]
    }
  | {
      readonly type: 'rosterReset'
      readonly channel: ChannelId
      /** No longer on the roster or in the group. */
      readonly dropped: readonly AgentId[]
      /** On the roster again. */
      readonly returned: readonly AgentId[]
    }
  /** Another agent owns the channel now: with its own commit, or because that was rejected. */
  | { readonly type: 'ownerChanged'; readonly channel: ChannelId }
  | { readonly type: 'barLifted'; readonly channel: ChannelId; readonly agent: AgentId }
  | {
      readonly type: 'deleted'
      readonly channel: ChannelId
      readonly name: string
      readonly members: readonly AgentId[]
    }
  /** A join request is waiting for the agent that registered the invite, or, without an owner, for any member. */
  | { readonly type: 'joinRequested'; readonly channel: ChannelId; readonly owner: AgentId | undefined }
  /** A join request ended without a Welcome. `code` is an error code. */
  | { readonly type: 'joinAnswered'; readonly agent: AgentId; readonly inviteId: string; readonly code: string }
