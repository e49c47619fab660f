/** A received message as it is stored: ciphertext and its own key. */
import type { MlsEngine } from '../../mls/index.ts'
import type { InboxRecord } from '../../ports.ts'
import { decodeFrame } from './message-frame.ts'

/** The payload of a stored message; undefined if it cannot be read. */
export function payloadOf(engine: MlsEngine, { ciphertext, messageKey }: InboxRecord): Uint8Array | undefined {
  return decodeFrame(engine.reopen(ciphertext, messageKey))?.payload
}
