/**
 * Ids of messages and commits: the time first, so that the relay's index stays compact, then random bytes. The last
 * four bits are zero; in the payloads of a pack they hold the payload's number.
 */
import { MESSAGE_ID_BYTES } from '@static/protocol'
import { viewOf } from '../../platform/bytes.ts'
import { packIdOf } from './pack.ts'
import type { AgentContext } from '../../agent/context.ts'

const TIME_BYTES = 6

export function newMessageId(context: Pick<AgentContext, 'now' | 'random'>): Uint8Array {
  const id = new Uint8Array(MESSAGE_ID_BYTES)
  const view = viewOf(id)
  const time = Math.floor(context.now())
  view.setUint16(0, time / 2 ** 32)
  view.setUint32(2, time)
  id.set(context.random(MESSAGE_ID_BYTES - TIME_BYTES), TIME_BYTES)
  return packIdOf(id)
}
