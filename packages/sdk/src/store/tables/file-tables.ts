/** Tables of files: those that others have sent, and those that this agent is sending. */
import type { FileRecord, UploadPart, UploadRecord } from '../../ports/index.ts'
import { BYTES, FLAG, INTEGER, OPTIONAL_TEXT, type Table, TEXT } from '../rows/table.ts'
import type { InChannel } from './channel-tables.ts'

/** Files that are neither saved nor dropped. */
export const FILE: Table<InChannel<FileRecord>> = {
  name: 'file',
  columns: {
    channel: TEXT,
    index: { ...INTEGER, name: 'log_index' },
    fileId: BYTES,
    secret: BYTES,
    size: INTEGER,
    name: TEXT,
    type: TEXT,
    messageId: BYTES,
    sender: TEXT,
    identity: BYTES,
    receivedAt: INTEGER,
    target: OPTIONAL_TEXT,
    partFile: OPTIONAL_TEXT,
    savedParts: INTEGER,
    isDone: FLAG,
  },
  key: ['channel', 'index'],
  parent: { table: 'channel', by: ['channel'] },
}

/** The hashes of a file's parts, apart: they are long, and the other row changes. */
export const FILE_DIGESTS: Table<InChannel<{ readonly index: number; readonly digests: Uint8Array }>> = {
  name: 'file_digests',
  columns: { channel: TEXT, index: { ...INTEGER, name: 'log_index' }, digests: BYTES },
  key: ['channel', 'index'],
  parent: { table: 'file', by: ['channel', 'index'] },
}

/** Files that this agent is sending. */
export const UPLOAD: Table<InChannel<UploadRecord>> = {
  name: 'upload',
  columns: {
    channel: TEXT,
    fileId: BYTES,
    secret: BYTES,
    size: INTEGER,
    name: TEXT,
    type: TEXT,
    text: TEXT,
    path: TEXT,
    begunAt: INTEGER,
  },
  key: ['channel', 'fileId'],
  parent: { table: 'channel', by: ['channel'] },
}

/** The parts that may have been sent. */
export const UPLOAD_PART: Table<InChannel<UploadPart & { readonly fileId: Uint8Array }>> = {
  name: 'upload_part',
  columns: { channel: TEXT, fileId: BYTES, part: INTEGER, nonce: BYTES, digest: BYTES },
  key: ['channel', 'fileId', 'part'],
  parent: { table: 'upload', by: ['channel', 'fileId'] },
}
