/**
 * Binds a group to its channel: a GroupContext extension of a private type (RFC 9420, sections 8.1, 13.4 and 17.3)
 * with the channel's name and the owner's fingerprint. The keys of every epoch depend on it, no commit may change it,
 * and every leaf must support its type:
 *
 *     version(1) = 1, fingerprint(32), name (ASCII, to the end)
 */
import { AGENT_ID_BYTES, type ChannelName, isChannelName } from '@static/protocol'
import { concat, latin1, utf8 } from '../platform/bytes.ts'

/** The extension's type, from the private-use range. */
export const CONTEXT_TYPE = 0xf57a
const VERSION = 1

/** The channel that a group belongs to. */
export interface ChannelContext {
  readonly name: ChannelName
  /** SHA-256 of the owner's signature key: the owner's agent id. */
  readonly owner: Uint8Array
}

/** The extension's data. */
export function encodeContext({ name, owner }: ChannelContext): Uint8Array {
  return concat(new Uint8Array([VERSION]), owner, utf8(name))
}

/** Parses the extension's data; undefined if it is malformed. */
export function decodeContext(data: Uint8Array): ChannelContext | undefined {
  const name = latin1(data.subarray(1 + AGENT_ID_BYTES))
  if (data[0] !== VERSION || !isChannelName(name)) return undefined
  return { name, owner: Uint8Array.from(data.subarray(1, 1 + AGENT_ID_BYTES)) }
}
