/** A received message as stored: ciphertext and message key. The payloads of a pack are stored separately. */
import { isPayloadKey, type MlsEngine, openPayload, sealPayload, storedBytes } from '../../mls/index.ts'
import type { InboxRecord } from '../../ports/index.ts'
import { decodeFrame } from '../sending/message-frame.ts'

/** The payload of a stored message; undefined if it cannot be decoded. */
export function payloadOf(engine: MlsEngine, record: InboxRecord): Uint8Array | undefined {
  const { ciphertext, messageKey } = record
  return isPayloadKey(messageKey) ? openPayload(record) : decodeFrame(engine.reopen(ciphertext, messageKey))?.payload
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
