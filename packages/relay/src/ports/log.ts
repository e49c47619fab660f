/**
 * A channel's log: positions, entries, declarations and Welcomes. Ids are lower-case hexadecimal strings here (for map
 * keys and log lines) and bytes on the wire.
 */
import type { DeclarationFields, LeaveNoticeFields } from '@static/protocol'

/** SHA-256 of an agent's public key, 64 hexadecimal digits. */
export type AgentId = string
/** 32 hexadecimal digits. */
export type ChannelId = string
/** Milliseconds since the Unix epoch. */
export type Time = number

/**
 * A position in a channel's log: the hash chain and the head after the entry of that index. Index 0 is before the
 * first.
 */
export interface Position {
  readonly index: number
  readonly hash: Uint8Array
  readonly slot: number
}

/** How far an agent has read a channel, and its receipt if it sent one. */
export interface AckedPosition {
  readonly channel: ChannelId
  readonly index: number
  /** The entry that added the agent to the membership it has read in; undefined if that is not known. */
  readonly from?: number | undefined
  readonly receipt?: Uint8Array | undefined
}

/** The last receipt of a member, as it sent it. The relay trusts nothing in it. */
export interface MemberReceipt {
  readonly agent: AgentId
  readonly receipt: Uint8Array
}

interface EntryCommon {
  readonly index: number
  /** Hash chain after this entry. */
  readonly hash: Uint8Array
  /** For messages and leaves, the head; for a commit, the slot it took. */
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

/** The roster changes of a commit, with its sender's signature. */
export interface SignedDeclaration extends DeclarationFields {
  readonly signature: Uint8Array
}

/** A Welcome as its sender submits it. */
export interface WelcomeFields {
  readonly agent: AgentId
  readonly welcome: Uint8Array
  /** Empty if the joiner did not use an invite. */
  readonly inviteId: Uint8Array
  readonly tag: Uint8Array
}

/** A Welcome waiting for its joiner. */
export interface StoredWelcome extends WelcomeFields {
  readonly channel: ChannelId
  readonly name: string
  readonly owner: AgentId
  readonly sender: AgentId
  /** The slot of the commit that added the joiner, and the start of the joiner's log. */
  readonly slot: number
  readonly position: Position
  /** Increases with every Welcome of the deployment; Welcomes are delivered in this order. */
  readonly sequence: number
}
