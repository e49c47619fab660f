/** A received message as stored: ciphertext and message key. */
import type { MlsEngine } from '../../../mls/index.ts'
import type { InboxRecord } from '../../../ports.ts'
import { decodeFrame } from './message-frame.ts'

/** The payload of a stored message; undefined if it cannot be decoded. */
export function payloadOf(engine: MlsEngine, { ciphertext, messageKey }: InboxRecord): Uint8Array | undefined {
  return decodeFrame(engine.reopen(ciphertext, messageKey))?.payload
}
