/**
 * The messages that an agent accepts from the relay: the kinds of pushes, and the bounds of all fields (SPEC.md, 3.1).
 * Every value within these bounds can be stored, used in sums and signed, so no other part of the agent checks it
 * again.
 */
import {
  AGENT_ID_BYTES,
  CHANNEL_ID_BYTES,
  HASH_BYTES,
  INVITE_ID_BYTES,
  MAX_NUMBER,
  MESSAGE_ID_BYTES,
  PUBLIC_KEY_BYTES,
  RECEIPT_BYTES,
  SIGNATURE_BYTES,
} from '@static/protocol'
import type { ServerBody } from '../ports/index.ts'

/** Every kind of message that the relay sends unasked, except the one that closes a session. */
export const PUSHES: ReadonlySet<ServerBody['case']> = new Set([
  'deliverMessage',
  'deliverCommit',
  'deliverLeave',
  'deliverWelcome',
  'gap',
  'commitRejected',
  'rosterReset',
  'barLifted',
  'channelDeleted',
  'joinAnswered',
  'keyPackagesLow',
  'receipts',
])

const MOST = BigInt(MAX_NUMBER)

/** The length of byte fields by name, in every message. In lists, every item has this length. */
const LENGTHS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    channelId: CHANNEL_ID_BYTES,
    messageId: MESSAGE_ID_BYTES,
    inviteId: INVITE_ID_BYTES,
    agentId: AGENT_ID_BYTES,
    sender: AGENT_ID_BYTES,
    owner: AGENT_ID_BYTES,
    standby: AGENT_ID_BYTES,
    adds: AGENT_ID_BYTES,
    removes: AGENT_ID_BYTES,
    vouches: AGENT_ID_BYTES,
    undoneAdds: AGENT_ID_BYTES,
    undoneRemoves: AGENT_ID_BYTES,
    dropped: AGENT_ID_BYTES,
    returned: AGENT_ID_BYTES,
    hash: HASH_BYTES,
    publicKey: PUBLIC_KEY_BYTES,
    leafKeys: PUBLIC_KEY_BYTES,
    signature: SIGNATURE_BYTES,
    receipt: RECEIPT_BYTES,
  }),
)
/** Honest relays leave these empty in some messages. */
const OPTIONAL: ReadonlySet<string> = new Set(['agentId', 'owner', 'standby', 'inviteId'])

/** The first value out of bounds in a message, if there is one. */
export function outOfBounds(value: unknown, name = ''): string | undefined {
  if (typeof value === 'bigint') return value > MOST ? `a number out of range, ${value} as ${name}` : undefined
  if (typeof value !== 'object' || value === null) return undefined
  if (value instanceof Uint8Array) return wrongLength(value.length, name)
  if (Array.isArray(value)) {
    for (const item of value) {
      const fault = outOfBounds(item, name)
      if (fault !== undefined) return fault
    }
    return undefined
  }
  // Without `Object.entries`: this runs for every message, and creating a list of its fields costs more than the check.
  for (const field in value) {
    const fault = outOfBounds((value as Record<string, unknown>)[field], field)
    if (fault !== undefined) return fault
  }
  return undefined
}

function wrongLength(length: number, name: string): string | undefined {
  const expected = LENGTHS.get(name)
  if (expected === undefined || length === expected || (length === 0 && OPTIONAL.has(name))) return undefined
  return `${length} bytes as ${name}, which has ${expected}`
}
