/** The files of an engine. */
import type { Account, AgentId, DueFile, Time } from '../../../ports.ts'
import type { Channel } from '../state.ts'

/** A file. It has ended once `expiresAt` is over. */
export interface FileRecord {
  /** Of its bytes: 32 hexadecimal digits, derived from the ids of channel and file. */
  readonly key: string
  /** The channel's number. */
  readonly channel: number
  readonly sender: AgentId
  /** Whether its sender was a guest. */
  readonly guest: boolean
  /** Padded. */
  readonly size: number
  readonly expiresAt: Time
  /** The message that named it; undefined until then. */
  readonly index: number | undefined
  /** Which parts are stored, as in `FileState`. */
  readonly parts: Uint8Array
  /** The CRC-32 of each part, 4 bytes each, big-endian; zeros for those that are not stored. */
  readonly checksums: Uint8Array
  /** The agents that have saved or dropped it. */
  readonly dropped: readonly AgentId[]
}

/** What files take: how many there are, and the bytes of their parts, of all and of those that guests sent. */
export interface FileRoom {
  readonly files: number
  readonly bytes: number
  readonly guestBytes: number
}

/** Files and the room that they take until they are forgotten. */
export interface FileRows {
  get(key: string): FileRecord | undefined
  /** There must be none with this key. */
  add(file: FileRecord, channel: Channel): void
  /** Replaces the record with this key. */
  change(file: FileRecord): void
  room(channel: Channel): FileRoom
  /** How many of a channel's files guests have sent. */
  countOfGuests(channel: Channel): number
  /** The bytes of the files in all channels of an account. Without those of deleted channels, which end at once. */
  bytesOf(account: Account): number
  /** How many unsent files of an agent have not ended. */
  countOpen(agent: AgentId, now: Time): number
  /** Ends the files of a channel that is deleted. */
  endAll(channel: Channel): void
  /** At most `limit` files that ended before a time, the longest ended first. */
  due(before: Time, limit: number): readonly DueFile[]
  /** Deletes those of the files that ended before a time. */
  forget(keys: readonly string[], before: Time): void
  /** Those of the keys that have a record. */
  known(keys: readonly string[]): readonly string[]
}
