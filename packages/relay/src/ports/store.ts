/**
 * What the relay asks of an engine of its log. The store decides slot, index, duplicates, counters and roster, because
 * several nodes may share one. Ids are lower-case hexadecimal texts here (map keys, log lines) and bytes on the wire.
 */
import type { DeclarationFields, ErrorCode, LeaveNoticeFields, Mode } from '@static/protocol'

/** SHA-256 of an agent's public key, 64 hexadecimal digits. */
export type AgentId = string
/** 32 hexadecimal digits. */
export type ChannelId = string
/** Milliseconds since 1970. */
export type Time = number

/** Whose messages are counted. */
export interface Account {
  readonly id: string
  readonly mode: Mode
}

/** Who asks the store for something. Without an account it is a guest. */
export interface Actor {
  readonly agent: AgentId
  readonly account: Account | undefined
}

/** A place in a channel's log: the hash chain and the head after the entry of that index. Index 0 is before the first. */
export interface Position {
  readonly index: number
  readonly hash: Uint8Array
  readonly slot: number
}

interface EntryCommon {
  readonly index: number
  /** The chain after this entry. */
  readonly hash: Uint8Array
  /** Message and leave: the head. Commit: the slot that it took. */
  readonly slot: number
  readonly sender: AgentId
  /** When it was accepted. */
  readonly at: Time
}

export interface MessageEntry extends EntryCommon {
  readonly kind: 'message'
  readonly messageId: Uint8Array
  readonly counter: number
  readonly control: boolean
  readonly ciphertext: Uint8Array
}

export interface CommitEntry extends EntryCommon {
  readonly kind: 'commit'
  readonly messageId: Uint8Array
  readonly commit: Uint8Array
  readonly declaration: SignedDeclaration
}

export interface LeaveEntry extends EntryCommon {
  readonly kind: 'leave'
  readonly notice: LeaveNoticeFields
}

/** An entry of a channel's log. */
export type Entry = MessageEntry | CommitEntry | LeaveEntry

/** What a commit does to the roster, with its sender's signature. */
export interface SignedDeclaration extends DeclarationFields {
  readonly signature: Uint8Array
}

/** A Welcome as its sender hands it in. */
export interface WelcomeFields {
  readonly agent: AgentId
  readonly welcome: Uint8Array
  /** Empty when the joiner did not come by an invite. */
  readonly inviteId: Uint8Array
  readonly tag: Uint8Array
}

/** A Welcome that waits for its joiner. */
export interface StoredWelcome extends WelcomeFields {
  readonly channel: ChannelId
  readonly name: string
  readonly owner: AgentId
  readonly sender: AgentId
  /** The slot of the commit that added the joiner, and where the joiner's log begins. */
  readonly slot: number
  readonly position: Position
  /** Rises with every Welcome of the deployment: the order in which they wait. */
  readonly sequence: number
}

/** Where an agent stands in a channel. */
export interface Standing {
  readonly channel: ChannelId
  readonly name: string
  readonly owner: AgentId
  readonly head: number
  /** The last entry that this agent may see: the channel's last, or the one that ended its membership. */
  readonly lastIndex: number
  readonly lastCounter: number
  readonly cursor: Position
  readonly barred: boolean
  readonly guestLimit: number
  /** Whose account pays for guests: the owner's. */
  readonly payer: Account
  /** Off the roster; what it may still see ends at `lastIndex`. */
  readonly removed: boolean
}

/** Entries that are gone before an agent fetched them. */
export interface Gap {
  readonly first: number
  /** Of the last one that is gone. */
  readonly position: Position
  readonly commitLost: boolean
  /** The agent is no member any more. */
  readonly ended: boolean
}

/** An invite that joiners may ask by. */
export interface Invite {
  readonly id: string
  readonly channel: ChannelId
  /** Who registered it. */
  readonly agent: AgentId
  readonly admissionKey: Uint8Array
  readonly expiresAt: Time
  readonly maxUses: number
  readonly uses: number
  readonly revoked: boolean
}

/** Why the store did not do it. Nothing has changed. */
export interface Refusal {
  readonly refused: ErrorCode
  /** One sentence for people; the code's own words when it is missing. */
  readonly message?: string
  /** With `epoch_mismatch`. */
  readonly head?: number
  /** With `out_of_order`. */
  readonly lastCounter?: number
  /** With `queue_full`: whom the channel waits for. */
  readonly lagging?: readonly AgentId[]
}

/** A message that nobody has paid for yet: every other check has passed. */
export interface Unpaid {
  readonly unpaid: Account
}

/** It is done, and there is nothing to tell. */
export interface Done {
  readonly done: true
}

/** What the store can be asked for: the request and the answer of each operation. */
export interface StoreOperations {
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
  /** By the owner's account: by id, or by the name in that account. */
  delete: [
    { readonly account: Account; readonly channel: ChannelId | undefined; readonly name: string | undefined },
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
      /** A unit of the payer's quota is held for this message. */
      readonly paid: boolean
      readonly now: Time
    },
    /** `charged`: the unit is used up; otherwise it is given back. */
    { readonly index: number; readonly charged: boolean } | Unpaid | Refusal,
  ]
  commit: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      readonly slot: number
      readonly messageId: Uint8Array
      readonly commit: Uint8Array
      /** Its signature has been checked. */
      readonly declaration: SignedDeclaration
      readonly welcomes: readonly WelcomeFields[]
      readonly now: Time
    },
    { readonly index: number; readonly head: number } | Refusal,
  ]
  reject: [
    { readonly actor: Actor; readonly channel: ChannelId; readonly slot: number },
    { readonly rejected: boolean; readonly votes: number; readonly needed: number } | Refusal,
  ]
  liftBar: [{ readonly actor: Actor; readonly channel: ChannelId; readonly agent: AgentId }, Done | Refusal]
  welcome: [
    { readonly actor: Actor; readonly channel: ChannelId; readonly slot: number; readonly welcome: WelcomeFields },
    Done | Refusal,
  ]
  leave: [
    {
      readonly actor: Actor
      readonly channel: ChannelId
      /** Its signature has been checked. */
      readonly notice: LeaveNoticeFields
      readonly now: Time
    },
    { readonly index: number } | Refusal,
  ]
  /** Whether the actor is on the roster (and of the right mode): before a KeyPackage is handed out. */
  check: [{ readonly actor: Actor; readonly channel: ChannelId }, Done | Refusal]
  resume: [
    {
      readonly agent: AgentId
      /** None named: all whose roster holds the agent, by id, those after `after`, at most `limit`. */
      readonly channels: readonly ChannelId[] | undefined
      readonly after: ChannelId | undefined
      readonly limit: number
    },
    {
      /** In the order asked for; `channel` alone where there is nothing to resume. */
      readonly standings: readonly (Standing | { readonly channel: ChannelId; readonly refused: ErrorCode })[]
      /** There are channels after the last of these. */
      readonly more: boolean
      /** Whether any roster holds this agent. */
      readonly member: boolean
    },
  ]
  /** The Welcomes that wait for an agent, the oldest first, after a sequence number. */
  welcomes: [
    { readonly agent: AgentId; readonly after: number; readonly maxBytes: number },
    {
      /** At least one, if there is one, however large. */
      readonly welcomes: readonly StoredWelcome[]
      readonly more: boolean
    },
  ]
  ack: [
    {
      readonly agent: AgentId
      readonly positions: readonly { readonly channel: ChannelId; readonly index: number }[]
    },
    Done,
  ]
  read: [
    {
      readonly channel: ChannelId
      readonly agent: AgentId
      readonly after: number
      /** At least one entry is given, however large. */
      readonly maxBytes: number
      readonly maxEntries: number
    },
    {
      readonly entries: readonly Entry[]
      /** What is missing between `after` and the first entry. */
      readonly gap: Gap | undefined
      /** The last index that this agent may see now. */
      readonly last: number
      /** Nothing comes after `last`: the agent's membership has ended there. */
      readonly ended: boolean
    },
  ]
  registerInvite: [
    {
      readonly actor: Actor & { readonly account: Account }
      readonly invite: Omit<Invite, 'uses' | 'revoked' | 'agent'>
      readonly maxInvites: number
      readonly now: Time
    },
    Done | Refusal,
  ]
  revokeInvite: [{ readonly agent: AgentId; readonly id: string }, Done | Refusal]
  invite: [
    /** With an agent: whether it was added to the channel, and its Welcome waits. */
    { readonly id: string; readonly agent?: AgentId },
    { readonly invite: Invite | undefined; readonly welcomed?: boolean },
  ]
  /** Lets go of what is acknowledged by all or expired, and gives the space back. */
  sweep: [{ readonly now: Time }, { readonly removed: number }]
}

/** The name of an operation. */
export type StoreOperation = keyof StoreOperations
/** What an operation is asked with. */
export type StoreRequest<Name extends StoreOperation> = StoreOperations[Name][0]
/** What an operation answers. */
export type StoreResult<Name extends StoreOperation> = StoreOperations[Name][1]

/** What happened in a channel, on whatever node: the source of every push. Comes after it is durable. */
export type StoreEvent =
  | { readonly type: 'appended'; readonly channel: ChannelId; readonly entry: Entry }
  /** A Welcome waits for an agent; `inviteId` (hexadecimal) is empty when it did not come by an invite. */
  | { readonly type: 'welcomed'; readonly channel: ChannelId; readonly agent: AgentId; readonly inviteId: string }
  | {
      readonly type: 'rejected'
      readonly channel: ChannelId
      readonly slot: number
      readonly sender: AgentId
      readonly undoneAdds: readonly AgentId[]
      readonly undoneRemoves: readonly AgentId[]
    }
  | { readonly type: 'barLifted'; readonly channel: ChannelId; readonly agent: AgentId }
  | {
      readonly type: 'deleted'
      readonly channel: ChannelId
      readonly name: string
      readonly members: readonly AgentId[]
    }

/** What all nodes of a deployment share. */
export interface Deployment {
  readonly relayId: Uint8Array
  /** The MAC key of session tokens, 32 bytes. */
  readonly tokenKey: Uint8Array
}

/** An engine of the relay's log. A promise is fulfilled when the operation is as durable as the engine can make it. */
export interface Store {
  readonly deployment: Deployment
  /** Operations start in the order of the calls. Rejects only when the engine itself fails; nothing is changed then. */
  run<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Promise<StoreResult<Name>>
  /** Whether the engine can write. */
  healthy(): boolean
  /** What was asked for before is finished first. */
  close(): Promise<void>
}

/** Takes the events of a store: in log order within a channel, each before the result that belongs to it. */
export type StoreListener = (event: StoreEvent) => void

/** How much a channel may hold. */
export interface Retention {
  readonly entryMs: number
  readonly messageIdMs: number
  readonly channelBytes: number
  readonly channelEntries: number
  /** Messages of the SDK itself that are free, per agent, channel and hour. */
  readonly freeControl: number
}
