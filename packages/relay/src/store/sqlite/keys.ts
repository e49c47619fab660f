/** Keys that sort by channel, so that the rows of one channel are adjacent. */
import type { IdKey } from '../ledger/rows.ts'
import { KINDS } from './records.ts'

const INDEX_BITS = 36n

/** The channel's number and the index: entries of a channel are in order without a second index. */
export function entryKey(channel: number, index: number): bigint {
  return (BigInt(channel) << INDEX_BITS) | BigInt(index)
}

/**
 * Eight bytes of the agent id are enough: an attacker who finds a key that agrees in them, and also uses the same
 * message id, only keeps a message of its own from being accepted.
 */
export function idKey(channel: number, { kind, agent, id }: IdKey): Uint8Array {
  const key = Buffer.allocUnsafe(15 + id.length)
  key.writeUIntBE(channel, 0, 6)
  key[6] = KINDS.indexOf(kind)
  key.write(agent, 7, 8, 'hex')
  key.set(id, 15)
  return key
}

/** The prefix of a channel's ids. */
export function channelPrefix(channel: number): Uint8Array {
  const prefix = Buffer.alloc(6)
  prefix.writeUIntBE(channel, 0, 6)
  return prefix
}

/** Sorts after every id. */
export const LAST_ID: Uint8Array = channelPrefix(2 ** 48 - 1)
