/**
 * The interface between MLS and the rest of the SDK. State is a value: a call takes a group or a ratchet and returns
 * the next one; the caller saves it, then sends, then wipes the old one. Nothing of a past epoch is kept. Hold the
 * group's mutex from the call until the new value is in place, because using a state twice uses keys twice.
 *
 * An epoch is saved in two parts: the whole group, once per commit (`encodeGroup`), and a row of 48 bytes per leaf
 * (`encodeRow`), one of which changes with every message.
 */
import type { SignatureKeyPair } from '#platform/crypto'
import type { DeclarationFields } from '@static/protocol'
import type { Declared, Violation } from './commit-rules.ts'
import type { ChannelContext, Ownership } from './channel-context.ts'
import type { ExpectedSender, Opened, RatchetRow, Ratchets, Sealed } from './ratchet.ts'
import type { InviteSeal } from './sealed-welcome.ts'

declare const opaque: unique symbol

/** A group in one epoch, without its application ratchets. Opaque outside the engine. */
export interface Group {
  readonly [opaque]: 'Group'
}

/** A group and the ratchets of its epoch. */
export interface Epoch {
  readonly group: Group
  readonly rows: readonly RatchetRow[]
}

/** A leaf that is not blank. */
export interface Member {
  readonly leaf: number
  readonly agentId: Uint8Array
  /** The identity it claims. */
  readonly identity: Uint8Array
  readonly signatureKey: Uint8Array
  /** The key of its leaf: changes with each of its commits, and each time it joins. */
  readonly encryptionKey: Uint8Array
  /**
   * When the KeyPackage with which it was added was made, in seconds by its own clock; undefined if it has committed
   * since.
   */
  readonly madeAt?: bigint
  /** Whether it is the ephemeral leaf that created the group; the owner's first commit removes it. */
  readonly founder: boolean
}

/** The public facts about a group. */
export interface GroupFacts {
  readonly groupId: Uint8Array
  readonly epoch: bigint
  readonly context: ChannelContext
  readonly members: readonly Member[]
  readonly own: Member
  /** The same for all members in an epoch, and known only to them (RFC 9420, section 8.7). */
  readonly epochAuthenticator: Uint8Array
}

/** A new KeyPackage of this agent. */
export interface NewKeyPackage {
  /** An MLSMessage, to publish. */
  readonly keyPackage: Uint8Array
  /** For the database and for `join`. Does not contain the signature key. */
  readonly privatePart: Uint8Array
  /** Its hash (KeyPackageRef), as `welcomeRefs` returns it. */
  readonly ref: Uint8Array
}

/** A valid KeyPackage of another agent. */
export interface CheckedKeyPackage {
  readonly agentId: Uint8Array
  readonly identity: Uint8Array
  readonly signatureKey: Uint8Array
  /** The key of its leaf once it is added. */
  readonly encryptionKey: Uint8Array
  /** When it was made, in seconds by its agent's clock. */
  readonly madeAt: bigint
  readonly ref: Uint8Array
}

/** The inputs for a new group. */
export interface NewGroup {
  /** The channel id becomes the group id. */
  readonly channelId: Uint8Array
  readonly name: ChannelContext['name']
  /** A KeyPackage of the channel's future owner. */
  readonly keyPackage: Uint8Array
  /** Milliseconds since 1970. */
  readonly now: number
}

/** The values that a Welcome must match; fields left out are not checked. */
export interface ExpectedWelcome {
  readonly channelId?: Uint8Array
  readonly name?: string
  /** The owner's fingerprint in the GroupContext. */
  readonly owner?: Uint8Array
  /** The agent id of the leaf that signed the GroupInfo. */
  readonly signer?: Uint8Array
  /**
   * The Welcome to this agent's own new channel: the founder leaf made it, there are no other members, and it is not
   * sealed. Any other Welcome must be.
   */
  readonly founding?: boolean
  /** The invite by which this agent joins. Without it, a Welcome by any invite is refused. */
  readonly invite?: InviteSeal
}

export interface Joined extends Epoch {
  /** The member that added this agent. */
  readonly signer: Member
}

/** An agent that joins by an invite. */
export interface Invited extends InviteSeal {
  readonly agentId: Uint8Array
}

/** The changes a commit makes. With none, it only replaces the keys. */
export interface CommitChange {
  /** KeyPackages. */
  readonly adds?: readonly Uint8Array[]
  /** Those among `adds` that join by an invite. */
  readonly invited?: readonly Invited[]
  /** Agent ids. */
  readonly removes?: readonly Uint8Array[]
  readonly removeFounder?: boolean
  /** The notices of the removed members that asked to leave. */
  readonly leaveNotices?: DeclarationFields['leaveNotices']
  /** The agent ids among `adds` that the owner vouches for. */
  readonly vouches?: readonly Uint8Array[]
  /**
   * The new owner of the channel, and the agent that may take it over. A commit that removes the standby also clears
   * it.
   */
  readonly ownership?: Ownership
  /** Milliseconds since 1970, to check the lifetimes of KeyPackages. */
  readonly now: number
}

/** A commit that the relay has not accepted yet. */
export interface PendingCommit {
  /** A PrivateMessage. */
  readonly commit: Uint8Array
  /** One per KeyPackage, in the same order, each with the tree, and sealed to its KeyPackage. */
  readonly welcomes: readonly { readonly agentId: Uint8Array; readonly welcome: Uint8Array }[]
  /** The end that all Welcomes share: the encrypted GroupInfo with its length. Empty when there are none. */
  readonly groupInfo: Uint8Array
  /** The declaration that the sender must send with it. */
  readonly declaration: DeclarationFields
  /** The group after the commit. Adopt it once the relay has accepted the commit; then wipe `current`. */
  readonly next: Epoch
  /**
   * The group before the commit, with the key of this commit used up: save it in place of the group passed in, together
   * with the pending commit. If this commit loses, process the winner with it; then wipe `next`.
   */
  readonly current: Group
  /** The committer was alone: it must make a commit without changes next, before it announces the add to anyone. */
  readonly rekeyDue: boolean
}

/** The result of processing another member's commit. */
export type Processed =
  | {
      readonly kind: 'accepted'
      readonly sender: Member
      readonly added: readonly Omit<Member, 'leaf'>[]
      readonly removed: readonly Member[]
      /** Undefined if the commit removes this agent. Wipe the old group once this is saved. */
      readonly next: Epoch | undefined
    }
  /** Every member skips it; the group does not change. */
  | { readonly kind: 'rejected'; readonly reason: Rejection; readonly sender: Member | undefined }
  /** No member in this epoch can open it, so every member skips it. */
  | { readonly kind: 'undecryptable'; readonly cause: unknown }
  /** It passes every check all members can make, but this one cannot apply it. Others may be able to. */
  | { readonly kind: 'unfollowable'; readonly sender: Member; readonly cause: unknown }
  /** It is for another epoch. A higher one means that other members applied a commit that was skipped here. */
  | { readonly kind: 'other_epoch'; readonly epoch: bigint }

/** Why a commit is skipped: it breaks a rule of commit-rules.ts or of RFC 9420. */
export type Rejection = Violation | 'not_a_commit' | 'other_group' | 'blank_sender' | 'out_of_bounds' | 'invalid'

/** The MLS operations. Those that only handle application messages are synchronous. */
export interface MlsEngine {
  /** Creates a KeyPackage that is valid for 84 days. */
  generateKeyPackage(identity: Uint8Array, key: SignatureKeyPair, now: number): Promise<NewKeyPackage>

  /**
   * Checks a KeyPackage before use; if an agent id is given, also that it belongs to that agent.
   *
   * @throws {StaticError} `invalid_request`, or `key_package_unavailable` outside its lifetime
   */
  checkKeyPackage(keyPackage: Uint8Array, now: number, agentId?: Uint8Array): Promise<CheckedKeyPackage>

  /**
   * Creates the group of a new channel and returns the Welcome for its owner. The founder's secrets are wiped.
   *
   * @throws {StaticError} as `checkKeyPackage`
   */
  found(group: NewGroup): Promise<Uint8Array>

  /** The `ref`s of the KeyPackages that a Welcome is for. Empty if the bytes are not a Welcome. */
  welcomeRefs(welcome: Uint8Array): readonly Uint8Array[]

  /** The id of the invite that a Welcome is sealed with, if it is. */
  welcomeInvite(welcome: Uint8Array): Uint8Array | undefined

  /**
   * Joins a group with a Welcome.
   *
   * @throws {StaticError} `invalid_welcome`
   */
  join(welcome: Uint8Array, privatePart: Uint8Array, key: SignatureKeyPair, expected: ExpectedWelcome): Promise<Joined>

  facts(group: Group): GroupFacts

  /** Exports a secret of the epoch for another use (RFC 9420, section 8.5). */
  exportSecret(group: Group, label: string, context: Uint8Array, length: number): Promise<Uint8Array>

  /**
   * Creates a commit.
   *
   * @throws {StaticError} `group_full`, `not_allowed`, `not_found`, `invalid_request`, as `checkKeyPackage`, and
   *   `unavailable` if the relay has refused so many in this epoch that other members might fail to decrypt another
   */
  commit(group: Group, change: CommitChange): Promise<PendingCommit>

  /** The number of commits that this agent has made in the epoch of the group. */
  commitsMade(group: Group): number

  /** Checks another member's commit and applies it. */
  process(group: Group, commit: Uint8Array, declared: Declared): Promise<Processed>

  /**
   * Encrypts for the group; `authenticatedData` stays readable. Replace the row with the new one before the next call.
   *
   * @throws {StaticError} `too_large`, `epoch_mismatch`
   */
  encrypt(group: Group, ratchets: Ratchets, plaintext: Uint8Array, authenticatedData?: Uint8Array): Sealed

  /**
   * Opens a message from another member. No ratchet changes if it fails.
   *
   * @throws {StaticError} `epoch_mismatch` for another epoch, otherwise `decryption_failure`
   */
  open(group: Group, ratchets: Ratchets, ciphertext: Uint8Array, expected: ExpectedSender): Opened

  /**
   * Opens a message again with the message key from `encrypt` or `open`; needs no group.
   *
   * @throws {StaticError} `decryption_failure`
   */
  reopen(ciphertext: Uint8Array, messageKey: Uint8Array): Uint8Array

  /**
   * Encrypts to an X25519 key outside any group: HPKE (RFC 9180) in base mode. Returns the encapsulated key, then the
   * ciphertext.
   */
  hpkeSeal(publicKey: Uint8Array, info: Uint8Array, plaintext: Uint8Array): Promise<Uint8Array>

  /**
   * Opens the result of `hpkeSeal`.
   *
   * @throws {Error} if it was made for another key or `info`, or was changed
   */
  hpkeOpen(privateKey: Uint8Array, info: Uint8Array, sealed: Uint8Array): Promise<Uint8Array>

  /** The epoch of a message or commit; undefined if it is neither. */
  epochOf(message: Uint8Array): bigint | undefined

  /** Encodes a group for the database, without the signature key. */
  encodeGroup(group: Group): Uint8Array

  /**
   * Decodes a group from the database.
   *
   * @throws {StaticError} `store_corrupt`
   */
  decodeGroup(bytes: Uint8Array, key: SignatureKeyPair): Group

  /** Overwrites a group's secrets, except those it shares with `staying`. */
  wipe(group: Group, staying?: Group): void
}
