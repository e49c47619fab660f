/** What the agent needs to send and receive files: the relay's port of files, and the disk. */
import type { FilesPlace } from './session.ts'

/** A request for a part (SPEC.md, 3.12). */
export interface PartRequest {
  readonly place: FilesPlace
  readonly path: string
  /** The session token. */
  readonly token: string
  readonly signal: AbortSignal
}

/** What the relay answers. */
export type PartReply =
  | {
      readonly type: 'done'
      /** A token that expires later, if there is one. */
      readonly token: string | undefined
      /** The part; empty for one that was put. */
      readonly bytes: Uint8Array<ArrayBuffer>
    }
  | {
      readonly type: 'refused'
      readonly status: number
      readonly code: string
      readonly message: string
      /** When to try again, if the relay says so. */
      readonly retryAfterMs: number | undefined
    }

/** Connections to the relay's port of files. */
export interface PartLine {
  /**
   * Stores a part. Reads nothing of it once it has returned.
   *
   * @throws {StaticError} `connection_error`; the reason of the signal if it is aborted
   */
  put(request: PartRequest, bytes: Uint8Array<ArrayBuffer>): Promise<PartReply>
  /** Fetches a part of exactly this length. Throws as `put`, also if the answer has another length. */
  get(request: PartRequest, length: number): Promise<PartReply>
  close(): void
}

/** A file that is being read. */
export interface OpenedSource {
  /** The absolute path, as it was opened. */
  readonly path: string
  readonly size: number
  /** Reads into the target until it is full or the file ends; returns the number of bytes. */
  read(target: Uint8Array, position: number): Promise<number>
  /** Whether the file is as it was when it was opened: its size and the time of its last change. */
  isUnchanged(): Promise<boolean>
  close(): Promise<void>
}

/** Encrypted parts of a stream, which vanish with the process. */
export interface Spool {
  append(bytes: Uint8Array): Promise<void>
  read(target: Uint8Array, position: number): Promise<void>
  close(): Promise<void>
}

/** A file that is being saved, under the name `PATH.part`. */
export interface OpenedTarget {
  /** Where it will be. */
  readonly path: string
  /** Recognizes this file after a restart. */
  readonly identity: string
  /** Whether it has its size and its name already. */
  readonly isComplete: boolean
  write(bytes: Uint8Array, position: number): Promise<void>
  /** Everything written is on disk. */
  sync(): Promise<void>
  /** Cuts it to its size and gives it its name, on disk. Never replaces another file. */
  finish(size: number): Promise<void>
  close(): Promise<void>
}

/** The files of the user. All errors are StaticErrors that name the path. */
export interface FileDisk {
  /** Opens a regular file. */
  openSource(path: string): Promise<OpenedSource>
  openSpool(): Promise<Spool>
  /** The absolute path under which a file can be saved: in a directory, one that is free for this name. */
  chooseTarget(path: string, safeName: string): Promise<string>
  /** Whether a path is this target, or the directory that it is in. */
  leadsTo(path: string, target: string): Promise<boolean>
  /**
   * Creates the unfinished file of a target; undefined if another file has taken either name. With `isLeft`, a crash may
   * have left an empty one, which is replaced.
   */
  openTarget(target: string, isLeft: boolean): Promise<OpenedTarget | undefined>
  /** Opens the unfinished file of a target, or the finished one, if it is the one with this identity. */
  reopenTarget(target: string, identity: string): Promise<OpenedTarget | undefined>
  /** Deletes the unfinished file of a target, if it is the one with this identity. */
  discard(target: string, identity: string): Promise<void>
}
