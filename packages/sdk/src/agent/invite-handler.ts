/**
 * The events that an agent passes to its invite handler. None reports the loss of a session: requests then fail or wait
 * (relay-requests.ts), and the next session begins with `opened`.
 */
import type { StaticError } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { AgentId, ChannelId, SessionInfo } from '../ports/index.ts'

/** Handles the invites that this agent issued and those it joins with. */
export interface InviteHandler {
  /** A session is open. */
  opened(info: SessionInfo): void
  /** A Welcome has arrived: resolves when it is handled. Returns undefined if this agent did not ask for it. */
  welcomed(delivered: DeliverWelcome): Promise<void> | undefined
  /** The owner refused a request. */
  refused(inviteId: Uint8Array, code: string): void
  /** The commit that adds a joiner is adopted. `joiner` is the value passed when it was requested. */
  admitted(id: ChannelId, joiner: string): void
  /** A commit by any member that adds an agent is adopted. */
  added(id: ChannelId, agent: AgentId): void
  /** The owner has changed which invites members may use. */
  listChanged(id: ChannelId): void
  /** An agent was added by an invite that members may use, which counts as a use. */
  useCounted(id: ChannelId, invite: string): void
  /** As the owner, this agent removed a member for its silence: its use of the invite is returned. */
  useReturned(invite: string): void
  /** Another agent owns a channel now: the invites of the former one are over. */
  ownerChanged(id: ChannelId, former: AgentId): void
  /** A verified hello or greeting of a member. */
  helloOrGreeting(id: ChannelId, kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void
  /** This agent has joined a channel by an offer. */
  accepted(id: ChannelId): void
  /** The application is about to leave a channel. */
  leaving(id: ChannelId): void
  /** A channel has failed. */
  failed(name: string): void
  /** A channel and all its data are gone. */
  dropped(id: ChannelId): void
  /** The application is about to remove a member. Returns a function to call when it is removed or cannot be. */
  removing(id: ChannelId, agent: AgentId): Promise<() => void>
  /** Nothing more will happen: the application closed the agent, or the agent has failed. */
  stop(cause: StaticError | undefined): void
}
