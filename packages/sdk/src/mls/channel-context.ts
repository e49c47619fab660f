/**
 * Binds a group to its channel: a GroupContext extension of a private type (RFC 9420, sections 8.1, 13.4 and 17.3) with
 * the channel's name, its owner and its standby. The keys of every epoch depend on it, the only commits that change it
 * are those that commit-rules.ts allows, and every leaf must support its type:
 *
 *     version(1) = 2, flags(1), owner(32), standby(32; zeros: none), name (ASCII, to the end)
 *
 * Flag 1: the owner offers the channel to the standby. Other flags are unknown to every member, so they are refused.
 */
import { AGENT_ID_BYTES, type ChannelName, isChannelName } from '@static/protocol'
import { concat, latin1, same, utf8 } from '../platform/bytes.ts'

/** The extension's type, from the private-use range. */
export const CONTEXT_TYPE = 0xf57a
const VERSION = 2
const OFFERED = 1
const NO_AGENT = new Uint8Array(AGENT_ID_BYTES)

/** The owner of a channel, and the agent that may take it over. */
export interface Ownership {
  /** SHA-256 of the owner's signature key: the owner's agent id. */
  readonly owner: Uint8Array
  /** The member that may make itself the owner, at any time. */
  readonly standby: Uint8Array | undefined
  /** Whether the owner has offered the channel to the standby: it wants to be replaced. */
  readonly offered: boolean
}

/** The channel that a group belongs to. */
export interface ChannelContext extends Ownership {
  readonly name: ChannelName
}

/** The ownership of a new channel. */
export function ownedBy(owner: Uint8Array): Ownership {
  return { owner, standby: undefined, offered: false }
}

/** Whether two contexts name the same owner and standby. */
export function isSameOwnership(one: Ownership, other: Ownership): boolean {
  const [before, after] = [one.standby ?? NO_AGENT, other.standby ?? NO_AGENT]
  return same(one.owner, other.owner) && same(before, after) && one.offered === other.offered
}

/** The extension's data. */
export function encodeContext({ name, owner, standby, offered }: ChannelContext): Uint8Array {
  const head = new Uint8Array([VERSION, offered ? OFFERED : 0])
  return concat(head, owner, standby ?? NO_AGENT, utf8(name))
}

/** Parses the extension's data; undefined if it is malformed. */
export function decodeContext(data: Uint8Array): ChannelContext | undefined {
  const [version, flags = 0] = data
  const owner = Uint8Array.from(data.subarray(2, 2 + AGENT_ID_BYTES))
  const standby = Uint8Array.from(data.subarray(2 + AGENT_ID_BYTES, 2 + 2 * AGENT_ID_BYTES))
  const name = latin1(data.subarray(2 + 2 * AGENT_ID_BYTES))
  if (version !== VERSION || (flags & ~OFFERED) !== 0 || !isChannelName(name)) return undefined
  const isNone = same(standby, NO_AGENT)
  const offered = flags === OFFERED
  // Each state has one form.
  if (isNone ? offered : same(standby, owner)) return undefined
  return { name, owner, standby: isNone ? undefined : standby, offered }
}
