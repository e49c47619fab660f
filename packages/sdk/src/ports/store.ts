/**
 * The agent's database.
 *
 * All changes of one wake-up (ratchets, cursor, outbox and inbox) are written in one transaction, so a crash leaves all
 * of them or none. Small data is kept in memory and read once, when the agent starts.
 */
import { type ReceiptClaim, StaticError } from '@static/protocol'
import type { ApprovalEventRecord, ApprovalRecord, ApprovalRequestRecord } from './approval-records.ts'
import type { AgentId, ChannelId, Time } from './ids.ts'
import type { FileRecord, UploadPart, UploadRecord } from './file-records.ts'
import type {
  AttemptRecord,
  ClaimRecord,
  InviteListRecord,
  InviteRecord,
  JoinerRecord,
  UseRecord,
} from './invite-records.ts'
import type {
  AnswererRecord,
  AnsweredRecord,
  AskRecord,
  InboxPlace,
  InboxRecord,
  MessageTotals,
  OutboxRecord,
  PoisonRecord,
  WaitingTotals,
} from './message-records.ts'
import type { KeptPlace, KeptRecord, KeptSize } from './kept-records.ts'
import type { MemberProofRecord, OwnProofRecord } from './proof-records.ts'
import type { KnownRelay } from './session.ts'

/** The agent's identity. Created once, at the first start. */
export interface IdentityRecord {
  /** The name that the application gave the agent. */
  readonly identity: Uint8Array
  /** Ed25519. */
  readonly publicKey: Uint8Array
  readonly secretKey: Uint8Array
}

/** A KeyPackage that can still be used to join a channel. */
export interface KeyPackageRecord {
  /** KeyPackageRef, hexadecimal. */
  readonly ref: string
  readonly keyPackage: Uint8Array
  readonly privatePart: Uint8Array
  readonly createdAt: Time
  /**
   * Whether it was made for the relay's pool and no Welcome for it is kept. All others are kept, however many there
   * are.
   */
  readonly pooled: boolean
}

/** The agent's position in a channel's log: the last entry that it has processed. */
export interface PositionRecord {
  readonly index: number
  readonly hash: Uint8Array
  readonly slot: number
}

/** How the current epoch began here, and what happened to commits in it. */
export interface EpochPlace {
  /** The last entry before the epoch's first one. */
  readonly index: number
  /** The counter of this agent's last message before the epoch. */
  readonly counter: number
  /** Whether this agent created or followed the commit that began it. An agent that joins by a Welcome cannot know. */
  readonly isProven: boolean
  /**
   * Whether the owner is known to be in it: it signed the Welcome, or a message from it was decrypted. Then no other
   * member can have invented the epoch.
   */
  readonly hasHeardOwner: boolean
  /** Agents whose commits were skipped in it. */
  readonly leftOut: readonly AgentId[]
  /** As the owner: members whose commits were skipped in earlier epochs, until this agent sends in the current one. */
  readonly leftOutBefore: readonly AgentId[]
  /** The senders of commits that perhaps only this agent cannot follow; until another member shows its epoch. */
  readonly doubted: readonly AgentId[]
}

/** The small part of a channel's state, which changes with every message. */
export interface ChannelRecord {
  readonly id: ChannelId
  readonly name: string
  /** Agent id of the owner. */
  readonly owner: AgentId
  /**
   * - `founding`: the Welcome of this agent's new channel exists; the channel is not registered, or the commit that
   *   removes the founder's leaf is not in the log.
   * - `offered`: a Welcome is waiting to be accepted.
   * - `joining`: entered with an invite, not yet greeted by the owner or by the member that added this agent.
   * - `joined`: in use.
   * - `leaving`: Leave is in progress.
   * - `ended`: removed, deleted, or left by another copy of this agent; kept until the application has read the rest of
   *   the inbox.
   */
  readonly state: 'founding' | 'offered' | 'joining' | 'joined' | 'leaving' | 'ended'
  readonly position: PositionRecord
  readonly epoch: EpochPlace
  /** Counter of this agent's last message, and the hash of its plaintext frame: this agent's own chain. */
  readonly counter: number
  readonly ownHash: Uint8Array
  /** Whether the commit that must follow the first add to a single-member group is still due. */
  readonly rekeyDue: boolean
  readonly rekeyedAt: Time
  /** When the relay first deferred a key replacement until this agent gave up; 0 if none since the last success. */
  readonly rekeyDeferredAt: Time
  readonly sentSinceRekey: number
  /** Set if members were shown different histories: the agent whose message revealed it. Sending has stopped. */
  readonly fork: AgentId | undefined
  /** If the group is broken, the error code for the application. */
  readonly broken: string | undefined
  /**
   * The encryption key of this agent's leaf and, while a commit of this agent is unanswered, that of the next leaf: a
   * Leave names them. Kept here so that a channel with an unreadable group can still be left. Empty until a Welcome is
   * read.
   */
  readonly leafKeys: readonly Uint8Array[]
  /**
   * No message beyond this index was delivered to the application. Exact after an orderly close, otherwise an upper
   * bound.
   */
  readonly givenUpTo: number
  /** The same for requests. */
  readonly servedUpTo: number
  /** The agent that created the Welcome of an offer or of a join by token; and when the offer arrived. */
  readonly addedBy: AgentId | undefined
  readonly offeredAt: Time
  /** Whether the owner has sent something since this agent joined: only then is this certainly the owner's group. */
  readonly confirmed: boolean
  /**
   * Whether another agent took the channel over before that: the former owner alone could have shown that its standby is
   * the one that this agent sees, so the channel is never confirmed.
   */
  readonly takenUnconfirmed: boolean
  /** The owner when this agent entered, if another one has taken the channel over since. */
  readonly enteredUnder: AgentId | undefined
  /** The commit count at the last commit by which the owner removed a member that had not left; 0 if there was none. */
  readonly removalSlot: number
}

/** The group of an epoch, written once per commit. Its ratchet rows change with every message. */
export interface EpochRecord {
  /** `encodeGroup`. */
  readonly group: Uint8Array
  /** Leaf → `encodeRow`. Replaces all rows of the channel. */
  readonly rows: ReadonlyMap<number, Uint8Array>
}

/** A commit by this agent that the relay has not answered yet. */
export interface PendingCommitRecord {
  readonly messageId: Uint8Array
  readonly slot: number
  /** The encoded SendCommitRequest. The same bytes are sent again after a crash. */
  readonly request: Uint8Array
  /** SHA-256 of the entry's body, which continues the hash chain: the relay returns own entries without their body. */
  readonly bodyHash: Uint8Array
  readonly next: EpochRecord
  /** The purpose of the commit, as JSON defined by the layer above. */
  readonly purpose: string
}

/** Progress of another sender in a channel. */
export interface SenderRecord {
  readonly agent: AgentId
  readonly counter: number
  /** Hash of its last message in this channel: the sender's own chain. */
  readonly ownHash: Uint8Array
  /** Whether the application chose to continue although this sender has seen a different log. */
  readonly accepted: boolean
}

/** Hashes of consecutive chain entries, up to the last one on disk. */
export interface ChainRecord {
  /** The index of the first hash. */
  readonly first: number
  /** 32 bytes each. */
  readonly hashes: Uint8Array
  /** This agent's own messages among them: for each, its distance from the first (2 bytes) and its id. */
  readonly own: Uint8Array
}

/** The content of this agent's receipts in a channel besides its position: what it missed, and what was put aside. */
export interface OwnReceiptRecord {
  readonly since: number
  readonly aside: number
}

/** A member's stay in a channel, according to this agent's log, and its last verified receipt. */
export interface StayRecord {
  readonly agent: AgentId
  /** The entry that added it; 0 if it was there before this agent. */
  readonly addedAt: number
  /** How it ended; undefined for a member. */
  readonly ending: 'left' | 'removed' | undefined
  /** The entry that removed it; 0 for a member. */
  readonly endedAt: number
  /** Whether this agent, as the owner, has vouched for it in this stay. */
  readonly vouched: boolean
  readonly receipt:
    | (Omit<ReceiptClaim, 'hash'> & {
        /** When this agent received it. */
        readonly heardAt: Time
      })
    | undefined
}

/** An agent that has left a channel, with its signed notice. */
export interface LeaverRecord {
  readonly agent: AgentId
  readonly publicKey: Uint8Array
  /** Head of the log when it left. */
  readonly slot: number
  /** Empty if the relay says that it left but its notice is invalid. */
  readonly leafKeys: readonly Uint8Array[]
  readonly signature: Uint8Array
}

/** One change in a transaction. */
export type Change =
  | { readonly type: 'putKeyPackage'; readonly record: KeyPackageRecord }
  | { readonly type: 'dropKeyPackage'; readonly ref: string }
  | { readonly type: 'putChannel'; readonly record: ChannelRecord }
  /** Deletes the channel and everything that belongs to it. */
  | { readonly type: 'dropChannel'; readonly id: ChannelId }
  /** The pending Welcome of a new channel or an offer. After use, its hash, by which the same Welcome is recognized. */
  | { readonly type: 'putWelcome'; readonly id: ChannelId; readonly welcome: Uint8Array | undefined }
  /**
   * Adopts an epoch and drops the previous group, its rows and its pending commit. Undefined: the channel no longer
   * has a group.
   */
  | { readonly type: 'putEpoch'; readonly id: ChannelId; readonly epoch: EpochRecord | undefined }
  /** Replaces the current group by one whose commit key is used up. */
  | { readonly type: 'putGroup'; readonly id: ChannelId; readonly group: Uint8Array }
  | { readonly type: 'putRow'; readonly id: ChannelId; readonly leaf: number; readonly row: Uint8Array }
  | { readonly type: 'putPending'; readonly id: ChannelId; readonly pending: PendingCommitRecord | undefined }
  | { readonly type: 'putSender'; readonly id: ChannelId; readonly sender: SenderRecord }
  | { readonly type: 'dropSender'; readonly id: ChannelId; readonly agent: AgentId }
  | { readonly type: 'putChain'; readonly id: ChannelId; readonly chain: ChainRecord }
  | { readonly type: 'dropChain'; readonly id: ChannelId; readonly first: number }
  | { readonly type: 'putOwnReceipt'; readonly id: ChannelId; readonly own: OwnReceiptRecord }
  | { readonly type: 'putStay'; readonly id: ChannelId; readonly stay: StayRecord }
  | { readonly type: 'dropStay'; readonly id: ChannelId; readonly agent: AgentId; readonly addedAt: number }
  | { readonly type: 'putOwnProof'; readonly id: ChannelId; readonly own: OwnProofRecord }
  | { readonly type: 'putMemberProof'; readonly id: ChannelId; readonly record: MemberProofRecord }
  | { readonly type: 'dropMemberProof'; readonly id: ChannelId; readonly agent: AgentId }
  | { readonly type: 'putOutbox'; readonly id: ChannelId; readonly record: OutboxRecord }
  /** The relay has stored the message: only the hash of its body is kept, until the entry has come back in the log. */
  | {
      readonly type: 'answerOutbox'
      readonly id: ChannelId
      readonly messageId: Uint8Array
      readonly bodyHash: Uint8Array
    }
  | { readonly type: 'dropOutbox'; readonly id: ChannelId; readonly messageId: Uint8Array }
  | { readonly type: 'putInbox'; readonly id: ChannelId; readonly record: InboxRecord }
  /** The application has settled the message. */
  | { readonly type: 'dropInbox'; readonly id: ChannelId; readonly place: InboxPlace }
  /** Moves a message out of the inbox. */
  | { readonly type: 'putPoison'; readonly id: ChannelId; readonly record: PoisonRecord }
  | { readonly type: 'dropPoison'; readonly id: ChannelId; readonly place: InboxPlace }
  /** A request that this agent has not fully answered. */
  | { readonly type: 'putRequest'; readonly id: ChannelId; readonly record: InboxRecord }
  | { readonly type: 'dropRequest'; readonly id: ChannelId; readonly place: InboxPlace }
  | { readonly type: 'putAsk'; readonly id: ChannelId; readonly record: AskRecord }
  /** Includes its answerers. Its answers are dropped one by one. */
  | { readonly type: 'dropAsk'; readonly id: ChannelId; readonly messageId: Uint8Array }
  | { readonly type: 'putAnswerer'; readonly id: ChannelId; readonly record: AnswererRecord }
  /** An answer that the application has not read. */
  | { readonly type: 'putAnswer'; readonly id: ChannelId; readonly record: InboxRecord }
  | { readonly type: 'dropAnswer'; readonly id: ChannelId; readonly place: InboxPlace }
  /** A file that a message has brought. Its hashes are put once, and dropped with it. */
  | { readonly type: 'putFile'; readonly id: ChannelId; readonly record: FileRecord }
  | { readonly type: 'putFileDigests'; readonly id: ChannelId; readonly index: number; readonly digests: Uint8Array }
  | { readonly type: 'dropFile'; readonly id: ChannelId; readonly index: number }
  | { readonly type: 'putUpload'; readonly id: ChannelId; readonly record: UploadRecord }
  | {
      readonly type: 'putUploadPart'
      readonly id: ChannelId
      readonly fileId: Uint8Array
      readonly part: UploadPart
    }
  /** Includes its parts. */
  | { readonly type: 'dropUpload'; readonly id: ChannelId; readonly fileId: Uint8Array }
  /** The application has settled a message, or this agent has sent one, and it is kept. */
  | { readonly type: 'putKept'; readonly id: ChannelId; readonly record: KeptRecord }
  | { readonly type: 'dropKept'; readonly id: ChannelId; readonly place: KeptPlace }
  /** For how many days messages are kept. 0: none, and what was kept is being erased. Undefined: none. */
  | { readonly type: 'putKeeping'; readonly days: number | undefined }
  | { readonly type: 'putApproval'; readonly id: ChannelId; readonly record: ApprovalRecord }
  /** Put once, and dropped with the approval. */
  | { readonly type: 'putApprovalRequest'; readonly id: ChannelId; readonly record: ApprovalRequestRecord }
  | { readonly type: 'putApprovalEvent'; readonly id: ChannelId; readonly record: ApprovalEventRecord }
  /** A decision of this agent that the relay has refused. */
  | {
      readonly type: 'dropApprovalEvent'
      readonly id: ChannelId
      readonly hash: Uint8Array
      readonly number: number
    }
  /** Includes its request and its events. */
  | { readonly type: 'dropApproval'; readonly id: ChannelId; readonly hash: Uint8Array }
  /** The agent has left but is still in the group. With its signed notice, any member can remove it. */
  | { readonly type: 'putLeaver'; readonly id: ChannelId; readonly leaver: LeaverRecord }
  | { readonly type: 'dropLeaver'; readonly id: ChannelId; readonly agent: AgentId }
  | { readonly type: 'putInvite'; readonly record: InviteRecord }
  | { readonly type: 'dropInvite'; readonly id: string }
  /** Deleted together with its invite. */
  | { readonly type: 'putJoiner'; readonly record: JoinerRecord }
  | { readonly type: 'dropJoiner'; readonly id: ChannelId; readonly agent: AgentId }
  /** Replaces the list. */
  | { readonly type: 'putInviteList'; readonly id: ChannelId; readonly list: InviteListRecord }
  | { readonly type: 'putUse'; readonly id: ChannelId; readonly use: UseRecord }
  | { readonly type: 'dropUse'; readonly id: ChannelId; readonly agent: AgentId; readonly slot: number }
  /** Replaces the member's last claim. */
  | { readonly type: 'putClaim'; readonly id: ChannelId; readonly claim: ClaimRecord }
  | { readonly type: 'dropClaims'; readonly id: ChannelId }
  | { readonly type: 'putAttempt'; readonly record: AttemptRecord }
  | { readonly type: 'dropAttempt'; readonly invite: string }
  /** Pins the key of an identity in the channels of an owner. */
  | { readonly type: 'putPin'; readonly owner: AgentId; readonly identity: Uint8Array; readonly agent: AgentId }
  /** Remembers that this agent was removed from a channel that has no other data left. */
  | { readonly type: 'putRemoved'; readonly record: RemovedRecord }
  | { readonly type: 'dropRemoved'; readonly name: string }
  /** Pins the relay with a name. */
  | ({ readonly type: 'putRelay'; readonly relayName: string } & KnownRelay)

/** A channel with everything needed to resume it. */
export interface StoredChannel {
  readonly record: ChannelRecord
  readonly welcome: Uint8Array | undefined
  readonly epoch: EpochRecord | undefined
  readonly pending: PendingCommitRecord | undefined
  readonly senders: readonly SenderRecord[]
  readonly leavers: readonly LeaverRecord[]
  readonly chain: readonly ChainRecord[]
  readonly ownReceipt: OwnReceiptRecord | undefined
  readonly stays: readonly StayRecord[]
  readonly ownProof: OwnProofRecord | undefined
  readonly memberProofs: readonly MemberProofRecord[]
  /** Ordered by counter. */
  readonly outbox: readonly OutboxRecord[]
  /** Ordered by counter. */
  readonly answered: readonly AnsweredRecord[]
  /** The unsettled messages. */
  readonly inbox: WaitingTotals
  readonly poison: MessageTotals
  readonly requests: WaitingTotals
  readonly answers: MessageTotals
  readonly asks: readonly AskRecord[]
  readonly answerers: readonly AnswererRecord[]
  readonly files: readonly FileRecord[]
  readonly uploads: readonly UploadRecord[]
  readonly approvals: readonly ApprovalRecord[]
  readonly approvalRequests: readonly ApprovalRequestRecord[]
  /** Ordered by number. */
  readonly approvalEvents: readonly ApprovalEventRecord[]
  readonly inviteList: InviteListRecord | undefined
  readonly uses: readonly UseRecord[]
  readonly claims: readonly ClaimRecord[]
}

/** A channel that this agent was removed from. */
export interface RemovedRecord {
  readonly name: string
  readonly at: Time
}

/** Everything that an agent loads when it starts. */
export interface Snapshot {
  readonly identity: IdentityRecord
  readonly keyPackages: readonly KeyPackageRecord[]
  readonly channels: readonly StoredChannel[]
  readonly removed: readonly RemovedRecord[]
  readonly pins: readonly { readonly owner: AgentId; readonly identity: Uint8Array; readonly agent: AgentId }[]
  /** By the name in the relay's certificate. */
  readonly relays: ReadonlyMap<string, KnownRelay>
  readonly invites: readonly InviteRecord[]
  readonly joiners: readonly JoinerRecord[]
  readonly attempts: readonly AttemptRecord[]
  /** For how many days messages are kept; see `putKeeping`. */
  readonly keepingDays: number | undefined
}

/** The agent's database. Synchronous, because a transaction of this size takes less time than a thread switch. */
export interface AgentStore {
  /** Loads everything except the inbox. */
  load(): Snapshot
  /**
   * The next unsettled messages of a channel after an index, in order. Exceeds the limit if necessary to include all of
   * the last index.
   */
  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[]
  /** A channel's messages that were put aside, in order. */
  poison(id: ChannelId): readonly PoisonRecord[]
  /** Like `inbox`, for requests that are not fully answered. */
  requests(id: ChannelId, after: number, limit: number): readonly InboxRecord[]
  /** The unread answers of a channel, in order. */
  answers(id: ChannelId): readonly InboxRecord[]
  /** The hashes of the parts of a file, one after the other; undefined if there is no such file. */
  fileDigests(id: ChannelId, index: number): Uint8Array | undefined
  /** How the parts of an upload are encrypted, in order. */
  uploadParts(id: ChannelId, fileId: Uint8Array): readonly UploadPart[]
  /** Kept messages of a channel before an index, the newest first. */
  kept(id: ChannelId, before: number, limit: number): readonly KeptRecord[]
  /** The same without their content. */
  keptSizes(id: ChannelId, before: number, limit: number): readonly KeptSize[]
  /**
   * Writes all changes or none. They are on disk when it returns.
   *
   * @throws {RefusedChange} if one of them can never be written; others can still be written
   */
  write(changes: readonly Change[]): void
  /**
   * Calls back once if accepted changes cannot be written, even between two calls: the agent must stop. An error that
   * only affected reading is just thrown.
   */
  onFailure(listener: (error: unknown) => void): void
  /** Moves the write-ahead log into the database file and empties it, so that no deleted data stays readable there. */
  checkpoint(): void
  close(): void
}

/** A change that a store cannot hold, such as an inexact number. Nothing of its turn is written. */
export class RefusedChange extends StaticError {
  readonly change: Change

  constructor(change: Change, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super('internal_error', `The store refuses ${change.type}: ${reason}`, { cause })
    this.change = change
  }
}
