/** A proxy's answers to connections beyond its own limits: the same as a relay's. */
import type { ServerMessage } from '@static/protocol/relay'
import { excessRefusal } from '../core/sessions/limits.ts'
import { closingMessage, serverMessage, wireRefusal } from '../core/server-messages.ts'
import type { FullTransport } from '../ports.ts'

/** The last message of a session. */
export function fullSession({ limit, value }: FullTransport): ServerMessage {
  return closingMessage('full', excessRefusal(limit, value))
}

/** The answer to a call. */
export function fullCall({ limit, value }: FullTransport, requestId: bigint): ServerMessage {
  return serverMessage({ case: 'error', value: wireRefusal(excessRefusal(limit, value)) }, requestId)
}
