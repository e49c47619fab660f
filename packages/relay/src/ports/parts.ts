/** Where the bytes of files are. Which parts count is decided by the store alone. */
import type { Time } from './log.ts'

/** The parts of a file, as found. */
export interface ListedParts {
  readonly key: string
  /** When the last of them came. */
  readonly changedAt: Time
}

/** Immutable parts of encrypted files, by the key of the file and their number. */
export interface Parts {
  /**
   * Stores a part of exactly `bytes`; resolves once it is durable. A part that is already there is replaced, all at
   * once: callers only repeat the same bytes. If the body fails, is shorter or longer, nothing changes.
   */
  put(key: string, part: number, body: AsyncIterable<Uint8Array>, bytes: number): Promise<void>
  /** The bytes of a part; undefined if it is not there, or has another length. */
  get(key: string, part: number, bytes: number): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Deletes all parts of a file. None is no error. */
  delete(key: string, parts: number): Promise<void>
  /** All files that have parts and a key after one, in order. */
  list(after: string): AsyncIterable<ListedParts>
  /** Whether less than a tenth of the room is free. */
  isNearlyFull(): Promise<boolean>
}
