/** Ids of messages and commits: first the time, so that the relay's index stays compact, then random bytes. */
import { MESSAGE_ID_BYTES } from '@static/protocol'
import type { AgentContext } from './context.ts'

const TIME_BYTES = 6

/** Creates an id. */
export function newMessageId(context: Pick<AgentContext, 'now' | 'random'>): Uint8Array {
  const id = Buffer.alloc(MESSAGE_ID_BYTES)
  id.writeUIntBE(context.now(), 0, TIME_BYTES)
  id.set(context.random(MESSAGE_ID_BYTES - TIME_BYTES), TIME_BYTES)
  return new Uint8Array(id.buffer, id.byteOffset, id.length)
}
