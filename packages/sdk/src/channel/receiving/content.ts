/** What the application gets of a message. */
import type { FileMessage } from '../../files/file-frame.ts'

/** The file of a message, as its sender describes it. */
export type OfferedFile = Pick<FileMessage, 'fileId' | 'size' | 'name' | 'type'>

export interface Content {
  readonly payload: Uint8Array
  /** Of a message that sends a file: its payload is the text beside it. */
  readonly file?: OfferedFile | undefined
}
