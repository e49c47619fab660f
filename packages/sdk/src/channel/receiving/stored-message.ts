/** A received message as stored: ciphertext and message key. The payloads of a pack are stored separately. */
import { decodeFile } from '../../files/file-frame.ts'
import { isPayloadKey, type MlsEngine, openPayload, sealPayload, storedBytes } from '../../mls/index.ts'
import { utf8 } from '../../platform/bytes.ts'
import type { InboxRecord } from '../../ports/index.ts'
import { decodeFrame, type Frame } from '../sending/message-frame.ts'
import type { Content } from './content.ts'

/** The content of a stored message; undefined if it cannot be decoded. */
export function contentOf(engine: MlsEngine, record: InboxRecord): Content | undefined {
  const { ciphertext, messageKey } = record
  if (isPayloadKey(messageKey)) return { payload: openPayload(record) }
  const frame = decodeFrame(engine.reopen(ciphertext, messageKey))
  return frame && frameContent(frame)
}

/** The content of a frame: of one about a file, its text, with the file beside it. */
export function frameContent({ kind, payload }: Pick<Frame, 'kind' | 'payload'>): Content {
  const described = kind === 'file' ? decodeFile(payload) : undefined
  if (!described) return { payload }
  const { fileId, size, name, type, text } = described
  // A copy, because a kept view would keep all hashes in memory.
  return { payload: utf8(text), file: { fileId: Uint8Array.from(fileId), size, name, type } }
}

/** The record of a message with the fields that the disk needs. Payloads of a pack are encrypted now. */
export function asStored<Stored extends InboxRecord>(message: { record: Stored; payload: Uint8Array }): Stored {
  const { record, payload } = message
  return isStorable(record) ? record : { ...record, ...sealPayload(payload) }
}

/** The bytes of the ciphertext, even before it exists. */
export function bytesOf(record: InboxRecord, payload: Uint8Array): number {
  return isStorable(record) ? record.ciphertext.length : storedBytes(payload)
}

function isStorable({ messageKey }: InboxRecord): boolean {
  return messageKey.length > 0
}
