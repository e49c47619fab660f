/**
 * What the rest of the SDK knows of MLS. State is a value: a call takes a group or a ratchet and returns the next one;
 * the caller saves it, then sends, then wipes what came before. Nothing of a past epoch is kept. Hold the group's
 * mutex from the call to the new value in place, because a state that is used twice uses keys twice.
 *
 * An epoch is saved in two parts: the group, whole, once per commit (`encodeGroup`), and a row of 48 bytes per leaf
 * (`encodeRow`), of which one changes with every message.
 */
import type { SignatureKeyPair } from '@static/node/ed25519'
import type { DeclarationFields } from '@static/protocol'
import type { Declared, Violation } from './commit-rules.ts'
import type { ChannelContext } from './context.ts'
import type { ExpectedSender, Opened, RatchetRow, Ratchets, Sealed } from './ratchet.ts'

declare const opaque: unique symbol

/** A group in one epoch without its application ratchets. Only the engine looks inside. */
export interface Group {
  readonly [opaque]: 'Group'
}

/** A group and the ratchets that begin with its epoch. */
export interface Epoch {
  readonly group: Group
  readonly rows: readonly RatchetRow[]
}

/** A leaf that is not blank. */
export interface Member {
  readonly leaf: number
  readonly agentId: Uint8Array
  /** What it calls itself. */
  readonly identity: Uint8Array
  readonly signatureKey: Uint8Array
  /** Of its leaf: another one after each of its commits, and in each of its stays. */
  readonly encryptionKey: Uint8Array
  /** The ephemeral leaf that made the group, still there until the owner's first commit. */
  readonly founder: boolean
}

/** A group, for reading. */
export interface GroupFacts {
  readonly groupId: Uint8Array
  readonly epoch: bigint
  readonly context: ChannelContext
  readonly members: readonly Member[]
  readonly own: Member
  /** Equal in all members of an epoch and known to nobody else (RFC 9420, section 8.7). */
  readonly epochAuthenticator: Uint8Array
}

/** A KeyPackage that was made. */
export interface NewKeyPackage {
  /** An MLSMessage, for others. */
  readonly keyPackage: Uint8Array
  /** For the database, and for `join`. Does not hold the signature key. */
  readonly privatePart: Uint8Array
  /** Its hash (KeyPackageRef), by which `welcomeRefs` names it. */
  readonly ref: Uint8Array
}

/** A KeyPackage that was checked. */
export interface CheckedKeyPackage {
  readonly agentId: Uint8Array
  readonly identity: Uint8Array
  readonly signatureKey: Uint8Array
  readonly ref: Uint8Array
}

/** What a new group is made of. */
export interface Founding {
  /** The channel id becomes the group id. */
  readonly channelId: Uint8Array
  readonly name: ChannelContext['name']
  /** A KeyPackage of the agent that will own the channel. */
  readonly keyPackage: Uint8Array
  /** Milliseconds since 1970. */
  readonly now: number
}

/** What must hold of a Welcome; what is left out is not asked for. */
export interface ExpectedWelcome {
  readonly channelId?: Uint8Array
  readonly name?: string
  /** The owner's fingerprint in the GroupContext. */
  readonly owner?: Uint8Array
  /** The agent id of the leaf that signed the GroupInfo. */
  readonly signer?: Uint8Array
  /** The Welcome of one's own new channel: the founder leaf made it, and there is nobody else. */
  readonly founding?: boolean
}

/** A group that was joined. */
export interface Joined extends Epoch {
  /** Who added this agent. */
  readonly signer: Member
}

/** What a commit shall do. Without anything it only replaces the keys. */
export interface CommitChange {
  /** KeyPackages. */
  readonly adds?: readonly Uint8Array[]
  /** Agent ids. */
  readonly removes?: readonly Uint8Array[]
  readonly removeFounder?: boolean
  /** Of those among the removed who have left by themselves. */
  readonly leaveNotices?: DeclarationFields['leaveNotices']
  /** Milliseconds since 1970, for the lifetimes of KeyPackages. */
  readonly now: number
}

/** A commit that was made and not yet accepted. */
export interface PendingCommit {
  /** A PrivateMessage. */
  readonly commit: Uint8Array
  /** One per KeyPackage, in the same order, with the tree inside. */
  readonly welcomes: readonly { readonly agentId: Uint8Array; readonly welcome: Uint8Array }[]
  /** The end that all Welcomes share: the encrypted GroupInfo with its length. Empty when there are none. */
  readonly groupInfo: Uint8Array
  /** What the sender must declare of it. */
  readonly declaration: DeclarationFields
  /** The group after it. To adopt when the relay has accepted it; then wipe `current`. */
  readonly next: Epoch
  /**
   * The group as it is, with the key of this commit used up: save it in place of the one given, together with the
   * pending commit. It processes the winner if this commit loses; then wipe `next`.
   */
  readonly current: Group
  /** The committer was alone: a commit without change must follow, made by itself, before anybody is told of the add. */
  readonly rekeyDue: boolean
}

/** What became of a commit of another member. */
export type Processed =
  | {
      readonly kind: 'accepted'
      readonly sender: Member
      readonly added: readonly Omit<Member, 'leaf'>[]
      readonly removed: readonly Member[]
      /** Undefined when this agent is among the removed. Wipe the old group once it is saved. */
      readonly next: Epoch | undefined
    }
  /** Everyone skips it; the group stays as it is. */
  | { readonly kind: 'rejected'; readonly reason: Rejection; readonly sender: Member | undefined }
  /** Nobody in this epoch can open it; everyone skips it. */
  | { readonly kind: 'undecryptable'; readonly cause: unknown }
  /** It is valid as far as all members can see, and this one cannot follow it. Others may, or may not. */
  | { readonly kind: 'unfollowable'; readonly sender: Member; readonly cause: unknown }
  /** It is of another epoch than the group. A higher one means that others took a commit that was skipped here. */
  | { readonly kind: 'other_epoch'; readonly epoch: bigint }

/** Why a commit is skipped: a rule of commits, or RFC 9420. */
export type Rejection = Violation | 'not_a_commit' | 'other_group' | 'blank_sender' | 'out_of_bounds' | 'invalid'

/** The calls. Those that only touch application messages are synchronous. */
export interface MlsEngine {
  /** Makes a KeyPackage that lasts 84 days. */
  generateKeyPackage(identity: Uint8Array, key: SignatureKeyPair, now: number): Promise<NewKeyPackage>

  /**
   * Checks a KeyPackage before it is used, and whose it is when an agent id is given.
   *
   * @throws {StaticError} `invalid_request`, or `key_package_unavailable` when it has run out
   */
  checkKeyPackage(keyPackage: Uint8Array, now: number, agentId?: Uint8Array): Promise<CheckedKeyPackage>

  /**
   * Makes the group of a new channel and the Welcome for its owner; the founder's secrets are gone when it returns.
   *
   * @throws {StaticError} as `checkKeyPackage`
   */
  found(founding: Founding): Promise<Uint8Array>

  /** The KeyPackages that a Welcome is for, by `ref`. Empty when it is no Welcome. */
  welcomeRefs(welcome: Uint8Array): readonly Uint8Array[]

  /**
   * Joins by a Welcome.
   *
   * @throws {StaticError} `invalid_welcome`
   */
  join(welcome: Uint8Array, privatePart: Uint8Array, key: SignatureKeyPair, expected: ExpectedWelcome): Promise<Joined>

  facts(group: Group): GroupFacts

  /** A secret of the epoch for a purpose of its own (RFC 9420, section 8.5). */
  exportSecret(group: Group, label: string, context: Uint8Array, length: number): Promise<Uint8Array>

  /**
   * Makes a commit.
   *
   * @throws {StaticError} `group_full`, `not_allowed`, `not_found`, `invalid_request`, and as `checkKeyPackage`
   */
  commit(group: Group, change: CommitChange): Promise<PendingCommit>

  /** Judges a commit of another member and follows it. */
  process(group: Group, commit: Uint8Array, declared: Declared): Promise<Processed>

  /**
   * Encrypts for the group; `authenticatedData` stays readable. Put the new row in place before the next call.
   *
   * @throws {StaticError} `too_large`, `epoch_mismatch`
   */
  encrypt(group: Group, ratchets: Ratchets, plaintext: Uint8Array, authenticatedData?: Uint8Array): Sealed

  /**
   * Opens a message of this member. No ratchet changes when it fails.
   *
   * @throws {StaticError} `epoch_mismatch` for another epoch, otherwise `decryption_failure`
   */
  open(group: Group, ratchets: Ratchets, ciphertext: Uint8Array, expected: ExpectedSender): Opened

  /**
   * Opens a message again by the key that `encrypt` or `open` gave with it; needs no group.
   *
   * @throws {StaticError} `decryption_failure`
   */
  reopen(ciphertext: Uint8Array, messageKey: Uint8Array): Uint8Array

  /** The epoch of a message or commit; undefined when it is neither. */
  epochOf(message: Uint8Array): bigint | undefined

  /** A group for the database. The signature key is not in it. */
  encodeGroup(group: Group): Uint8Array

  /**
   * A group from the database.
   *
   * @throws {StaticError} `store_corrupt`
   */
  decodeGroup(bytes: Uint8Array, key: SignatureKeyPair): Group

  /** Overwrites a group's secrets, but those that it shares with one that stays. */
  wipe(group: Group, staying?: Group): void
}
