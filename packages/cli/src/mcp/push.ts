/**
 * Tells the host that messages are waiting (`claude/channel`, in the 2025 revisions of MCP). Hosts may drop this, so it
 * carries no message and settles none. It enters a model's context unasked, so it carries no free text from a member.
 */
import { shownIdentity } from '@static/protocol'
import type { Server } from '@modelcontextprotocol/server'
import type { Item } from './lane.ts'

/** Declares it to the host. */
export const PUSH_CAPABILITY: { readonly 'claude/channel': Readonly<Record<string, never>> } = { 'claude/channel': {} }

const METHOD = 'notifications/claude/channel'
/** A longer identity is more than a name. */
const MOST_LETTERS = 64

/** Tells a host that an item is waiting in a channel. */
export async function push(server: Server, item: Item): Promise<void> {
  const { channel } = item
  const meta = { channel, ...('message' in item && senderMeta(item.message.sender)) }
  const what = 'message' in item ? 'A message is waiting' : 'A warning is waiting'
  try {
    await server.notification({
      method: METHOD,
      params: { content: `${what} in channel ${channel}. Call receive to read it.`, meta },
    })
  } catch {
    // The host is gone, or has not finished its handshake. The message waits regardless.
  }
}

function senderMeta(sender: {
  readonly identity: string
  readonly agent_id: string
}): Readonly<Record<string, string>> {
  const { identity, agent_id: id } = sender
  const isName = shownIdentity(identity) === identity && identity.length <= MOST_LETTERS
  return { sender_agent_id: id, ...(isName && { sender_identity: identity }) }
}
