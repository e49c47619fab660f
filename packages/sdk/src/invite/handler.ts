/** What an agent hands on to whoever deals with invites. */
import type { StaticError } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { AgentId, ChannelId, SessionInfo } from '../ports.ts'

/** Deals with invites: those of this agent, and those it joins by. */
export interface InviteHandler {
  /** A session is open. */
  opened(info: SessionInfo): void
  /** A Welcome by an invite has come; false when this agent did not ask for it. */
  welcomed(delivered: DeliverWelcome): boolean
  /** The owner has refused a request. */
  refused(inviteId: Uint8Array, code: string): void
  /** The commit that brings a joiner in is adopted; `joiner` is what was said when it was asked for. */
  admitted(id: ChannelId, joiner: string): void
  /** A verified message of the SDK itself. */
  greeted(id: ChannelId, kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void
  /** A channel cannot go on here. */
  failed(name: string): void
  /** A channel and everything about it is gone. */
  dropped(id: ChannelId): void
  /** The application is about to remove a member. */
  removing(id: ChannelId, agent: AgentId): Promise<void>
  /** Nothing more happens: by the application's will, or because the agent has failed. */
  stop(cause: StaticError | undefined): void
}
