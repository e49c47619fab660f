/** Keys whose order is that of their channels, so that what belongs to one channel lies together. */
import type { IdKey } from '../ledger/rows.ts'
import { KINDS } from './records.ts'

const INDEX_BITS = 36n

/** The channel's number and the index: so the entries of a channel lie in order, and no second tree is needed. */
export function entryKey(channel: number, index: number): bigint {
  return (BigInt(channel) << INDEX_BITS) | BigInt(index)
}

/**
 * Eight bytes of the agent id are enough: who finds another key that agrees in them would, with the message id of the
 * other as well, keep only a message of its own from being accepted.
 */
export function idKey(channel: number, { kind, agent, id }: IdKey): Uint8Array {
  const key = Buffer.allocUnsafe(15 + id.length)
  key.writeUIntBE(channel, 0, 6)
  key[6] = KINDS.indexOf(kind)
  key.write(agent, 7, 8, 'hex')
  key.set(id, 15)
  return key
}

/** What the ids of a channel begin with. */
export function channelPrefix(channel: number): Uint8Array {
  const prefix = Buffer.alloc(6)
  prefix.writeUIntBE(channel, 0, 6)
  return prefix
}

/** Beyond the key of every id. */
export const LAST_ID: Uint8Array = channelPrefix(2 ** 48 - 1)
