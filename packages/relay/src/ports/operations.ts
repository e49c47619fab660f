/** The operations of a store: their requests, results and refusals. */
import type { ErrorCode, LeaveNoticeFields, Mode } from '@static/protocol'
import type { StoreEvent } from './events.ts'
import type { FileOperations } from './files.ts'
import type { InviteOperations } from './invites.ts'
import type {
  AckedPosition,
  AgentId,
  ChannelId,
  Entry,
  MemberReceipt,
  Position,
  SignedDeclaration,
  StoredWelcome,
  Time,
  WelcomeFields,
} from './log.ts'
import type { Account, Actor, Done, Laggard, Refusal } from './outcome.ts'

/** An agent's state in a channel. */
export interface Standing {
  readonly channel: ChannelId
  readonly name: string
  readonly owner: AgentId
  readonly head: number
  /** The last entry that this agent may see: the channel's last, or the one that ended its membership. */
  readonly lastIndex: number
  readonly lastCounter: number
  readonly cursor: Position
  /** The entry that added it. */
  readonly addedIndex: number
  /** Whether the Welcome to this membership is pending. */
  readonly welcome: boolean
  readonly barred: boolean
  readonly guestLimit: number
  /** The account that pays for guests: the owner's. */
  readonly payer: Account
  /** No longer on the roster. It may see entries up to `lastIndex`. */
  readonly removed: boolean
  /** Of other members, as many as were asked for. */
  readonly receipts?: readonly MemberReceipt[]
}

/** Entries that were deleted before an agent fetched them. */
export interface Gap {
  readonly first: number
  /** After the last deleted entry. */
  readonly position: Position
  readonly commitLost: boolean
  /** Whether the agent's membership has ended, and whether it did so at this position. */
  readonly ended: boolean
  readonly last: boolean
}

/** Where a channel's log ends. */
export interface Head {
  readonly channel: ChannelId
  readonly index: number
  readonly slot: number
}

/** A channel, as its owner's account sees it from outside. */
export interface OwnedChannel {
  readonly id: ChannelId
  readonly name: string
  readonly mode: Mode
  readonly owner: AgentId
  readonly createdAt: Time
  /** When the last entry was accepted, or the channel created. */
  readonly lastAt: Time
  /** The size of the log while a member has not fetched all of it, else 0. */
  readonly waitingBytes: number
  /** The size of the roster. */
  readonly members: number
  /** The members furthest behind, first. */
  readonly behind: readonly Laggard[]
}

/** Reported to a sender when a channel is filling up. */
export interface Pressure {
  /** How long the sender should wait before its next message here. */
  readonly waitMs: number
  /** A few of the members furthest behind; empty if other channels of the account use up the room. */
  readonly lagging: readonly Laggard[]
}

/** A request that passed every other check but is not paid for yet. */
export interface Unpaid {
  readonly unpaid: Account
  /** How many messages of the quota it costs. Default: 1. */
  readonly units?: number
}

/** The operations of the store: request and result of each. */
export interface StoreOperations extends InviteOperations, FileOperations {
  /** The storage limits of an account's plan; undefined: the relay's own limits apply. */
  allot: [
    {
      readonly account: Account
      readonly channelBytes: number | undefined
      readonly accountBytes: number | undefined
      readonly fileBytes?: number | undefined
      /** When the API reported these limits. */
      readonly at: Time
    },
    Done,
  ]
  create: [
    {
      readonly actor: Actor & { readonly account: Account }
      readonly channel: ChannelId
      readonly name: string
      readonly welcome: Uint8Array
      readonly guestLimit: number
      readonly maxChannels: number
      readonly now: Time
    },
    { readonly welcome: Uint8Array; readonly guestLimit: number } | Refusal,
  ]
  /** By the owner's account: by id, by name within that account, or by an id that must have that name. */
  delete: [
    {
      readonly account: Account
      readonly channel: ChannelId | undefined
      readonly name: string | undefined
      /** Leaves channels alone that were created later, such as another one of that name. */
      readonly createdBy?: Time
    },
    Done | Refusal,
  ]
  append: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      readonly slot: number
      readonly messageId: Uint8Array
      readonly counter: number
      readonly control: boolean
      readonly ciphertext: Uint8Array
      /** The account of whose quota a unit is reserved for this message. It pays only if it is the payer. */
      readonly paid: Account | undefined
      /** The file that the message names, and how long the members have to fetch it. */
      readonly file?: { readonly id: string; readonly keptMs: number } | undefined
      readonly now: Time
    },
    /** `charged`: the unit is used up; otherwise it is returned. */
    { readonly index: number; readonly charged: boolean; readonly pressure?: Pressure } | Unpaid | Refusal,
  ]
  commit: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      readonly slot: number
      readonly messageId: Uint8Array
      readonly commit: Uint8Array
      /** Its signature has been verified. */
      readonly declaration: SignedDeclaration
      readonly welcomes: readonly WelcomeFields[]
      /** The GroupInfo shared by these Welcomes: stored once, delivered with each. Empty if they are complete. */
      readonly groupInfo: Uint8Array
      /** Units of the owner's quota reserved for this commit. */
      readonly paid: number
      /** How many channels the account may have, and the limit for guests of a new one, if it becomes the owner's. */
      readonly maxChannels: number
      readonly guestLimit: number
      readonly now: Time
    },
    /** `units`: how many of them are used up; the others are returned. */
    { readonly index: number; readonly head: number; readonly units: number } | Unpaid | Refusal,
  ]
  reject: [
    { readonly actor: Actor; readonly channel: ChannelId; readonly slot: number },
    { readonly rejected: boolean; readonly votes: number; readonly needed: number } | Refusal,
  ]
  liftBar: [{ readonly actor: Actor; readonly channel: ChannelId; readonly agent: AgentId }, Done | Refusal]
  /** By the owner: vouches for these members. Its signature has been verified. */
  vouch: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      /** Must equal the head. */
      readonly slot: number
      readonly agents: readonly AgentId[]
    },
    Done | Refusal,
  ]
  /** By the owner: sets the roster to exactly these agents. Its signature has been verified. */
  resetRoster: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      /** The owner's position, in the head's epoch. */
      readonly position: Position
      readonly agents: readonly AgentId[]
      /** The agents among them that the owner vouches for. */
      readonly vouched: readonly AgentId[]
    },
    Done | Refusal,
  ]
  welcome: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      readonly slot: number
      readonly welcome: WelcomeFields
      /** As in `commit`. */
      readonly paid: number
      readonly now: Time
    },
    { readonly units: number } | Unpaid | Refusal,
  ]
  leave: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      /** Its signature has been verified. */
      readonly notice: LeaveNoticeFields
      readonly now: Time
    },
    { readonly index: number } | Refusal,
  ]
  /** Whether the actor is on the roster (and in the right mode). Checked before a KeyPackage is handed out. */
  check: [{ readonly actor: Actor; readonly channel: ChannelId }, Done | Refusal]
  resume: [
    {
      readonly agent: AgentId
      /** Undefined: all channels whose roster contains the agent, by id, starting after `after`, at most `limit`. */
      readonly channels: readonly ChannelId[] | undefined
      readonly after: ChannelId | undefined
      readonly limit: number
      /** How many receipts of other members to return for each channel. Default: none. */
      readonly receipts?: number
    },
    {
      /** In the requested order. An entry with `refused` has nothing to resume. */
      readonly standings: readonly (Standing | { readonly channel: ChannelId; readonly refused: ErrorCode })[]
      /** Whether there are channels after the last of these. */
      readonly more: boolean
      /** Whether any roster contains this agent. */
      readonly member: boolean
    },
  ]
  /** The Welcomes waiting for an agent, oldest first, after a sequence number. */
  welcomes: [
    { readonly agent: AgentId; readonly after: number; readonly maxBytes: number },
    {
      /** At least one if there is any, however large. */
      readonly welcomes: readonly StoredWelcome[]
      readonly more: boolean
    },
  ]
  ack: [
    {
      readonly agent: AgentId
      readonly positions: readonly AckedPosition[]
    },
    Done,
  ]
  read: [
    {
      readonly channel: ChannelId
      readonly agent: AgentId
      readonly after: number
      /** At least one entry is returned, however large. */
      readonly maxBytes: number
      readonly maxEntries: number
    },
    {
      readonly entries: readonly Entry[]
      /** What is missing between `after` and the first entry. */
      readonly gap: Gap | undefined
      /** The last index that this agent may see now. */
      readonly last: number
      /** Whether the agent's membership ended at `last`, so that nothing follows. */
      readonly ended: boolean
      /** The entry that added the agent to the membership that was read; undefined if it has none. */
      readonly from: number | undefined
    },
  ]
  /** The channels that an account owns, in both modes, by name. Bounded by the limits; changes nothing. */
  owned: [
    {
      readonly account: string
      /** How many to skip: each call holds up all others, so callers ask for few at a time. */
      readonly skip: number
      readonly maxChannels: number
      readonly maxMembersPerChannel: number
      readonly maxMembers: number
    },
    { readonly total: number; readonly channels: readonly OwnedChannel[] },
  ]
  /** Marks a nonce as used. `fresh` is false if it was used before, on any node. */
  useNonce: [{ readonly nonce: Uint8Array; readonly until: Time }, { readonly fresh: boolean }]
  /** Where the logs of channels end, in any order. Deleted and unknown channels are missing. Changes nothing. */
  heads: [{ readonly channels: readonly ChannelId[] }, { readonly heads: readonly Head[] }]
  /**
   * Events other than `appended` of any node since a position, in no particular order, kept for a minute: each
   * once. Without a position: none, and the current one.
   */
  notices: [
    { readonly after: string | undefined; readonly limit: number },
    {
      readonly events: readonly StoreEvent[]
      /** Pass it to the next call. */
      readonly position: string
      /** Whether there are more now. */
      readonly more: boolean
    },
  ]
  /** Deletes entries that all members have acknowledged or that have expired, and frees the space. */
  sweep: [{ readonly now: Time }, { readonly removed: number }]
}

export type StoreOperation = keyof StoreOperations
export type StoreRequest<Name extends StoreOperation> = StoreOperations[Name][0]
export type StoreResult<Name extends StoreOperation> = StoreOperations[Name][1]
