/** Members of a channel, as commands show and find them. */
import { identityWithFingerprint, type NamedAgent, shortFingerprint, ShownNames, StaticError } from '@static/protocol'
import { type Channel, type ChannelMember, type MemberProof, shownProof, type StaticChannelManager } from '@static/sdk'

/** The minimum number of digits of an agent id that identify a member. */
const MIN_ID_DIGITS = 8

export interface MemberSummary {
  readonly agent_id: string
  readonly fingerprint: string
  readonly identity: string
  readonly owner: boolean
  /** Whether it may take the channel over. */
  readonly standby: boolean
  /** Whether the member is this agent. */
  readonly self: boolean
  /** Whether the owner vouches for it; only the owner's agent knows. */
  readonly vouched?: boolean
  /** Who runs it, as far as it has shown that. */
  readonly proof?: ProofSummary
}

/** A member's proof, with the name that we make of it. */
export interface ProofSummary {
  readonly state: MemberProof['state']
  readonly name: string
  /** When a checked one lapses. */
  readonly until?: string
}

export function proofOf(proof: MemberProof): ProofSummary {
  const { state } = proof
  return { state, name: shownProof(proof), ...(proof.state === 'checked' && { until: proof.until.toISOString() }) }
}

/** The sender of a message. */
export interface SenderSummary {
  readonly agent_id: string
  readonly fingerprint: string
  /** The name it chose itself. */
  readonly identity: string
  /** The identity in readable form: escaped, with the short fingerprint if it could be mistaken for another. */
  readonly name: string
  /** Who runs it, as far as it has shown that. */
  readonly proof?: ProofSummary
}

/** The checked name, for language models: nothing for a claim that is not checked. */
export function runBy(proof: ProofSummary | undefined): { readonly run_by?: string } {
  return proof?.state === 'checked' ? { run_by: proof.name } : {}
}

export function membersOf(manager: StaticChannelManager, channel: Channel): readonly MemberSummary[] {
  return channel.members().map(({ agentId, fingerprint, identity, vouched, proof }) => ({
    agent_id: agentId,
    fingerprint,
    identity: Buffer.from(identity).toString(),
    owner: fingerprint === channel.owner,
    standby: agentId === channel.standby?.agentId,
    self: agentId === manager.client.agentId,
    ...(vouched !== undefined && { vouched }),
    ...(proof && { proof: proofOf(proof) }),
  }))
}

/**
 * Members choose their identities, so an identity can look like someone else's agent id. Only a whole agent id is
 * certain; anything else must match exactly one member. Text that could begin an agent id never matches by identity,
 * because it may belong to an agent that has left.
 */
export function findMember(members: readonly MemberSummary[], channel: string, wanted: string): MemberSummary {
  const digits = digitsOf(wanted)
  const byId = members.find(({ agent_id: id }) => id === digits)
  if (byId !== undefined) return byId
  const isPrefix = digits.length >= MIN_ID_DIGITS && /^[0-9a-f]+$/.test(digits)
  const isBegun = isPrefix && members.some(({ agent_id: id }) => id.startsWith(digits))
  const fitting = members.filter(({ agent_id: id, identity }) =>
    isBegun ? identity === wanted || id.startsWith(digits) : !isPrefix && identity === wanted,
  )
  const [found] = fitting
  if (found !== undefined && fitting.length === 1) return found
  const problem = found === undefined ? 'has no member' : `has ${fitting.length} members that match`
  throw StaticError.of(
    found === undefined ? 'not_found' : 'invalid_request',
    `Channel ${channel} ${problem} ${JSON.stringify(wanted)}. Use a fingerprint from the list of members.`,
  )
}

/** Like `findMember`, but a whole agent id may belong to an agent that is not a member. */
export function memberOrAgent(
  members: readonly MemberSummary[],
  channel: string,
  wanted: string,
): Pick<SenderSummary, 'agent_id' | 'name'> {
  const digits = digitsOf(wanted)
  if (/^[0-9a-f]{64}$/.test(digits) && members.every(({ agent_id: id }) => id !== digits)) {
    return { agent_id: digits, name: `agent ${shortFingerprint(digits)}` }
  }
  const { agent_id: agentId, identity } = findMember(members, channel, wanted)
  return { agent_id: agentId, name: identityWithFingerprint({ agentId, identity }) }
}

/** Fingerprints are written with spaces. */
function digitsOf(wanted: string): string {
  return wanted.replaceAll(/[\s:]/g, '').toLowerCase()
}

/** The sender of a message from an epoch, as JSON. */
export function senderOf(
  channel: Channel,
  epoch: number,
  { agentId, fingerprint, identity, proof }: ChannelMember,
): SenderSummary {
  const text = Buffer.from(identity).toString()
  const name = namesIn(channel, epoch).of({ agentId, identity: text })
  return { agent_id: agentId, fingerprint, identity: text, name, ...(proof && { proof: proofOf(proof) }) }
}

/** The sender of a message by the members as they are now, as JSON. */
export function senderNow(channel: Channel, { agentId, fingerprint, identity, proof }: ChannelMember): SenderSummary {
  const text = Buffer.from(identity).toString()
  const name = new ShownNames(namedMembers(channel)).of({ agentId, identity: text })
  return { agent_id: agentId, fingerprint, identity: text, name, ...(proof && { proof: proofOf(proof) }) }
}

/** The names in each channel, as of the last message's epoch: members change only with the epoch. */
const NAMES = new WeakMap<Channel, { readonly epoch: number; readonly names: ShownNames }>()

function namesIn(channel: Channel, epoch: number): ShownNames {
  const known = NAMES.get(channel)
  if (known?.epoch === epoch) return known.names
  const names = new ShownNames(namedMembers(channel))
  NAMES.set(channel, { epoch, names })
  return names
}

function namedMembers(channel: Channel): readonly NamedAgent[] {
  try {
    return channel.members().map(({ agentId, identity }) => ({ agentId, identity: Buffer.from(identity).toString() }))
  } catch {
    // The channel has failed, so names cannot be told apart.
    return []
  }
}
