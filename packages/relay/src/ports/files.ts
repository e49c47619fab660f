/** Files: their state, and the store's operations on them. Their bytes are in `Parts`. */
import type { ChannelId, Time } from './log.ts'
import type { Account, Actor, Done, Refusal } from './outcome.ts'

/** A file, by the id that its sender chose. */
export interface FileName {
  readonly channel: ChannelId
  /** 32 hexadecimal digits. */
  readonly file: string
}

/** What an agent learns of a file. */
export interface FileState {
  /** Padded. */
  readonly size: number
  /** Part n is bit n mod 8, counted from the lowest, of byte n / 8. */
  readonly parts: Uint8Array
  readonly sent: boolean
  readonly expiresAt: Time
}

/** How much room files may take, and how many there may be. */
export interface FileLimits {
  /** Of all files of an account, whatever its plan says. */
  readonly accountBytes: number
  readonly perChannel: number
  /** Files of an agent that no message has named. */
  readonly open: number
  readonly unsentMs: number
}

/** A file whose bytes are to be deleted. */
export interface DueFile {
  readonly key: string
  readonly parts: number
}

/** The operations of the store on files: request and result of each. */
export interface FileOperations {
  /** Reserves the room of a file, or returns the state of the sender's own one. */
  beginFile: [
    FileName & {
      readonly actor: Actor
      /** A padded size. */
      readonly size: number
      readonly limits: FileLimits
      readonly now: Time
    },
    FileState | Refusal,
  ]
  fileStatus: [FileName & { readonly actor: Actor; readonly now: Time }, FileState | Refusal]
  /** Whether the sender may store a part, and which bytes are expected. Changes nothing. */
  admitPart: [
    FileName & { readonly actor: Actor; readonly part: number; readonly now: Time },
    (
      | {
          readonly key: string
          readonly bytes: number
          /** The CRC-32 of the part that is stored already: only the same bytes are accepted. */
          readonly stored: number | undefined
          readonly payer: Account
        }
      | Refusal
    ),
  ]
  /** Records a part whose bytes are on disk. `charged`: false if it was recorded before. */
  recordPart: [
    FileName & { readonly actor: Actor; readonly part: number; readonly checksum: number; readonly now: Time },
    { readonly charged: boolean } | Refusal,
  ]
  /** Whether the agent may fetch a part. Changes nothing. */
  findPart: [
    FileName & { readonly actor: Actor; readonly part: number; readonly now: Time },
    /** `total`: of all parts of the file. */
    { readonly key: string; readonly bytes: number; readonly total: number } | Refusal,
  ]
  dropFile: [FileName & { readonly actor: Actor; readonly everyone: boolean; readonly now: Time }, Done | Refusal]
  /** Files that have ended a while ago, whose bytes must be deleted before `forgetFiles`. Changes nothing. */
  dueFiles: [{ readonly now: Time; readonly limit: number }, { readonly files: readonly DueFile[] }]
  /** Frees the room of files that have ended, and forgets them: their bytes are gone. */
  forgetFiles: [{ readonly keys: readonly string[]; readonly now: Time }, Done]
  /** Which of these files the store knows. Bytes of others belong to nothing. Changes nothing. */
  knownFiles: [{ readonly keys: readonly string[] }, { readonly keys: readonly string[] }]
}

/** Whether this node has a place for the bytes of files: none, one that is nearly full, or one with room. */
export type FilesPlace = 'none' | 'full' | 'open'

/** A request by HTTP for one part, unique while it lasts. */
export interface PartAsk extends FileName {
  readonly verb: 'put' | 'get'
  readonly token: string
  readonly part: number
}

/** The relay's answer to one, or to bytes that have come. */
export type PartAnswer =
  | {
      readonly type: 'go'
      /** Where the bytes are, and how many. */
      readonly key: string
      readonly bytes: number
      /** For a part that is stored already: its CRC-32. */
      readonly stored: number | undefined
      /** A session token that expires later than the one of the request. */
      readonly token: string | undefined
    }
  | { readonly type: 'recorded' }
  | { readonly type: 'refused'; readonly refusal: Refusal }

/** Decides about parts. */
export interface PartGate {
  /** Whether a transfer may begin. If so, `over` must follow. */
  ask(id: number, ask: PartAsk): Promise<PartAnswer>
  /** The bytes of a part are durable: records it. */
  store(id: number, checksum: number): Promise<PartAnswer>
  over(id: number): void
}
