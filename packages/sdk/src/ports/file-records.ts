/** Files in the agent's database: those that others have sent, and those that this agent is sending. */
import type { AgentId, Time } from './ids.ts'

/** A file that a message has brought, until it is saved or dropped. */
export interface FileRecord {
  /** The index of its message. A member may name the id of another file, so the id alone does not tell files apart. */
  readonly index: number
  readonly fileId: Uint8Array
  readonly secret: Uint8Array
  readonly size: number
  readonly name: string
  readonly type: string
  readonly messageId: Uint8Array
  readonly sender: AgentId
  /** The name that the sender's key claims. */
  readonly identity: Uint8Array
  readonly receivedAt: Time
  /** Where it is being saved; undefined before that. */
  readonly target: string | undefined
  /** Names the unfinished file on disk, to recognize it after a restart; undefined until it exists. */
  readonly partFile: string | undefined
  /** How many parts the unfinished file has, even after a power failure. */
  readonly savedParts: number
  /** Saved or dropped: only the relay has to be told. */
  readonly isDone: boolean
}

/** A file of which this agent has begun to send the parts. Its message has not been encrypted. */
export interface UploadRecord {
  readonly fileId: Uint8Array
  readonly secret: Uint8Array
  readonly size: number
  readonly name: string
  readonly type: string
  readonly text: string
  readonly path: string
  readonly begunAt: Time
}

/** How a part of an upload is encrypted, on disk before it is sent: only these bytes are ever sent as this part. */
export interface UploadPart {
  readonly part: number
  readonly nonce: Uint8Array
  readonly digest: Uint8Array
}
