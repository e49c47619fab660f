/** Invites, requests to join with one, and the store's operations on them. */
import type { AgentId, ChannelId, Time } from './log.ts'
import type { Account, Actor, Done, Refusal } from './outcome.ts'

/** An invite that joiners may use to ask for admission. */
export interface Invite {
  readonly id: string
  readonly channel: ChannelId
  /** The agent that registered it. */
  readonly agent: AgentId
  readonly admissionKey: Uint8Array
  readonly expiresAt: Time
  readonly maxUses: number
  readonly uses: number
  readonly revoked: boolean
  /** Whether any member with an account may admit joiners, not only the agent that registered it. */
  readonly members: boolean
  /** The key to which joiners encrypt their requests, because they hold proofs; absent if they need not. */
  readonly boxKey?: Uint8Array
}

/** A request to join with an invite, until it is refused or the joiner is added. */
export interface JoinRequest {
  readonly invite: string
  readonly channel: ChannelId
  /** The agent that registered the invite; undefined if any member with an account may admit the joiner. */
  readonly owner: AgentId | undefined
  /** The joiner. */
  readonly agent: AgentId
  /** Encrypted for those who may admit the joiner. */
  readonly box: Uint8Array
  /** When the request expires. */
  readonly until: Time
}

/** A join request that was stored. */
export interface NumberedJoin extends JoinRequest {
  /** Rises with every request that a channel gets. */
  readonly number: number
}

/** The operations of the store on invites and join requests: request and result of each. */
export interface InviteOperations {
  registerInvite: [
    {
      readonly actor: Actor & { readonly account: Account }
      readonly invite: Omit<Invite, 'uses' | 'revoked' | 'agent'>
      readonly maxInvites: number
      readonly now: Time
    },
    Done | Refusal,
  ]
  revokeInvite: [{ readonly agent: AgentId; readonly id: string; readonly now: Time }, Done | Refusal]
  invite: [
    { readonly id: string; readonly joiner?: { readonly agent: AgentId; readonly now: Time } },
    {
      readonly invite: Invite | undefined
      /** Why the joiner cannot use it; undefined if it can. */
      readonly ended?: Refusal | undefined
      /** Whether the joiner is already a member of the channel, and whether its Welcome is waiting. */
      readonly joined?: boolean
      readonly welcomed?: boolean
    },
  ]
  /**
   * Stores a join request, replacing this agent's earlier one for this invite. Emits `joinRequested`. For members:
   * refused if the invite has ended meanwhile.
   */
  requestJoin: [
    {
      readonly join: JoinRequest
      readonly maxPerInvite: number
      /** For an owner. Beyond it, its oldest request is dropped, and that joiner retries. */
      readonly maxPerOwner: number
      /** For members. The channel's requests, counting those of this invite twice, must fit into it. */
      readonly maxBytes: number
      readonly now: Time
    },
    Done | Refusal,
  ]
  /** The join requests of a channel that wait for an agent, as owner or member, in order of arrival. */
  takeJoins: [
    {
      readonly actor: Actor & { readonly account: Account }
      readonly channel: ChannelId
      /** Only requests with a higher number: no token holder should make anyone fetch its request twice. */
      readonly after: number
      readonly maxRequests: number
      /** At least one request is returned, however large. */
      readonly maxBytes: number
      /** Whether the agent keeps waiting if there is none: then `pending` is empty. */
      readonly mayWait: boolean
      readonly now: Time
    },
    {
      readonly joins: readonly NumberedJoin[]
      /** The `after` of the next call. */
      readonly lastNumber: number
      /** The numbers up to `after` that are still waiting. */
      readonly pending: readonly number[]
    },
  ]
  /** Ends a join request by the agent that registered the invite. Emits `joinAnswered`. `not_found` if there is none. */
  answerJoin: [
    {
      readonly owner: AgentId
      readonly invite: string
      readonly agent: AgentId
      /** An error code. */
      readonly code: string
      readonly now: Time
    },
    Done | Refusal,
  ]
}
