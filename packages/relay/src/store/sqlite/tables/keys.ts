/** Keys of entries and ids. */
import type { IdKey } from '../../ledger/rows/ids.ts'
import { KINDS } from '../../records/entry.ts'

const INDEX_BITS = 36n

/** The channel's number and the index: entries of a channel are in order without a second index. */
export function entryKey(channel: number, index: number): bigint {
  return (BigInt(channel) << INDEX_BITS) | BigInt(index)
}

/**
 * The id comes first: agents start it with the time, so new ones sort last in all channels. Eight bytes of the agent id
 * are enough: an attacker who finds a key that matches them, and also uses the same message id, only blocks its own
 * message.
 */
export function idKey(channel: number, { kind, agent, id }: IdKey): Uint8Array {
  const key = Buffer.allocUnsafe(15 + id.length)
  key.set(id, 0)
  key.writeUIntBE(channel, id.length, 6)
  key[id.length + 6] = KINDS.indexOf(kind)
  key.write(agent, id.length + 7, 8, 'hex')
  return key
}

/** Sorts after every id. */
export const LAST_ID: Uint8Array = new Uint8Array(64).fill(0xff)
