/** Agent events other than messages, printed for the person at the terminal. */
import { identityWithFingerprint, shortFingerprint } from '@static/protocol'
import { type AgentEvent, shownProof } from '@static/sdk'
import type { OpenAgent } from '../../agent/open.ts'
import { note, shortTime } from '../../terminal/output.ts'

/** Events that explain why sending is slow. */
const DELAYS = new Set<AgentEvent['type']>(['waiting', 'throttled', 'lagging'])

/** Prints each event to stderr, until the agent is closed. */
export async function printEvents(agent: OpenAgent, events: AsyncIterable<AgentEvent>): Promise<void> {
  const names = new EventNames(agent)
  let lost = false
  for await (const event of events) {
    // The first connection is expected; only a reconnection is worth printing.
    if (event.type === 'connected' && !lost) continue
    lost = event.type === 'disconnected'
    const words = describe(event, await names.of(event))
    if (words !== undefined) note(words)
  }
}

/** Prints only the reasons for delays, for a command that sends. */
export async function printDelays(agent: OpenAgent, events: AsyncIterable<AgentEvent>): Promise<void> {
  const names = new EventNames(agent)
  for await (const event of events) {
    if (DELAYS.has(event.type)) note(describe(event, await names.of(event)) ?? '')
  }
}

/** The displayed name of a member, by its agent id. */
type NameOf = (agentId: string) => string

const THIS_AGENT = 'this agent'

/** The maximum number of former members remembered by name. */
const MOST_NAMES = 1024

/** The names of members, and of members that have left since they were last named. */
class EventNames {
  readonly #agent: OpenAgent
  /** By channel and agent id, oldest first. */
  readonly #identities = new Map<string, string>()
  #self: string | undefined

  constructor(agent: OpenAgent) {
    this.#agent = agent
  }

  /** The names for an event. */
  async of(event: AgentEvent): Promise<NameOf> {
    if (!('channel' in event)) return shortFingerprint
    const { channel } = event
    const isKnown = idsIn(event).every((id) => this.#identities.has(`${channel} ${id}`))
    if (!isKnown || event.type === 'members_changed') await this.#learn(channel)
    return (id) => {
      if (id === this.#self) return THIS_AGENT
      const identity = this.#identities.get(`${channel} ${id}`)
      return identity === undefined ? shortFingerprint(id) : identityWithFingerprint({ agentId: id, identity })
    }
  }

  async #learn(channel: string): Promise<void> {
    const members = await this.#agent.call('knownMembers', channel).catch(() => [])
    for (const { agent_id: id, identity, self } of members) {
      if (self) this.#self = id
      this.#identities.delete(`${channel} ${id}`)
      this.#identities.set(`${channel} ${id}`, identity)
    }
    for (const oldest of this.#identities.keys()) {
      if (this.#identities.size <= MOST_NAMES) break
      this.#identities.delete(oldest)
    }
  }
}

/** The agents named in the text of an event. */
function idsIn(event: AgentEvent): readonly string[] {
  if (event.type === 'lagging') return event.members.map(({ agent }) => agent)
  if (event.type === 'commit_disputed') return [event.sender, ...event.members]
  if (event.type === 'admitted') return [event.by, event.member]
  if (event.type === 'ownership_changed') return [event.owner, ...(event.standby === undefined ? [] : [event.standby])]
  if (event.type === 'members_changed') return [...event.added, ...event.removed]
  if (event.type === 'approval_requested') return [event.asker]
  if ('sender' in event) return [event.sender]
  return 'member' in event ? [event.member] : []
}

function lagging({ channel, members }: Extract<AgentEvent, { type: 'lagging' }>, name: NameOf): string {
  const slow = members.map(({ agent, waiting }) => `${name(agent)} has not fetched ${waiting} messages`)
  return `${channel}: the relay is running out of storage, so sending is slowed down: ${slow.join('; ')}. Start these members, or remove them.`
}

function ownershipChanged(
  { channel, by, owner, standby, offered }: Extract<AgentEvent, { type: 'ownership_changed' }>,
  name: NameOf,
): string {
  if (by === owner && standby === undefined) return `${channel}: ${name(owner)} owns the channel, without a standby.`
  if (standby === undefined) return `${channel}: the standby was removed.`
  if (offered && name(standby) === THIS_AGENT)
    return `${channel}: the owner offers you this channel. Take it over with \`static channel take-over ${channel}\`.`
  return `${channel}: ${name(standby)} is the standby${offered ? ', and the owner offers it the channel' : ''}.`
}

function membersChanged(
  { channel, added, removed }: Extract<AgentEvent, { type: 'members_changed' }>,
  name: NameOf,
): string | undefined {
  const joined = added.map(name).filter((who) => who !== THIS_AGENT)
  const left = removed.map(name)
  const changes = [
    ...(joined.length > 0 ? [`${joined.join(', ')} joined`] : []),
    ...(left.length > 0 ? [`${left.join(', ')} left or was removed`] : []),
  ]
  return changes.length > 0 ? `${channel}: ${changes.join('; ')}.` : undefined
}

type ApprovalEvent = Extract<AgentEvent, { type: `approval_${string}` }>

function isApproval(event: AgentEvent): event is ApprovalEvent {
  return event.type.startsWith('approval_')
}

function approval(event: ApprovalEvent, name: NameOf): string {
  switch (event.type) {
    case 'approval_requested':
      return `${event.channel}: ${name(event.asker)} asks for your approval: \`static channel approvals ${event.channel}\`.`
    case 'approval_decided':
      return `${event.channel}: ${name(event.member)} has ${event.choice === 'approve' ? 'approved' : 'denied'} ${event.approval}.`
    case 'approval_over':
      return `${event.channel}: ${event.approval} is ${event.decision}.`
    case 'approval_ignored':
      return `${event.channel}: ignored message ${event.index} from ${name(event.sender)} about an approval (${event.reason}).`
  }
}

/** The displayed name of an agent in an event that carries its identity. */
function nameIn(identity: Uint8Array, agentId: string): string {
  return identityWithFingerprint({ agentId, identity: Buffer.from(identity).toString() })
}

function describe(event: AgentEvent, name: NameOf): string | undefined {
  return isApproval(event) ? approval(event, name) : other(event, name)
}

function other(event: Exclude<AgentEvent, ApprovalEvent>, name: NameOf): string | undefined {
  switch (event.type) {
    case 'members_changed':
      return membersChanged(event, name)
    case 'lagging':
      return lagging(event, name)
    case 'connected':
      return `reconnected over ${event.way === 'quic' ? 'QUIC' : 'gRPC'}.`
    case 'disconnected':
      return `connection lost, reconnecting: ${event.error.message}`
    case 'rekeyed':
    // Requested events are shown by the command that requested them.
    case 'receipt':
      return undefined
    case 'ownership_changed':
      return ownershipChanged(event, name)
    case 'confirmed':
      return `${event.channel}: the owner has confirmed this channel.`
    case 'admitted':
      return event.beyond
        ? `${event.channel}: ${name(event.by)} admitted ${name(event.member)} with invite ${shortFingerprint(event.invite)}, which had no uses left or was revoked. The owner's agent removes it.`
        : `${event.channel}: ${name(event.by)} admitted ${name(event.member)} with invite ${shortFingerprint(event.invite)}.`
    case 'identity_changed':
      return `${event.channel}: ${nameIn(event.identity, event.now)} has a different key than before (${shortFingerprint(event.known)}). Verify its fingerprint with its owner out of band.`
    case 'roster_lie':
      return `${event.channel}: the relay sent false information: ${event.detail}`
    case 'gap':
      return `${event.channel}: messages ${event.first} to ${event.last} were deleted before this agent received them.`
    case 'decryption_failure':
      return `${event.channel}: message ${event.index} could not be decrypted and was skipped.`
    case 'sender_unreadable':
      return `${event.channel}: eight messages in a row from ${name(event.sender)} could not be decrypted. If this goes on, replace the keys with \`static channel rotate\`.`
    case 'unknown_version':
      return `${event.channel}: skipped a message of version ${event.version} from ${name(event.sender)}. Update this program to read it.`
    case 'commit_skipped':
      if (event.reason === 'unfollowable')
        return `${event.channel}: this agent cannot follow a change by ${name(event.sender)} (slot ${event.slot}). The owner's next message shows whether the owner could.`
      return `${event.channel}: skipped an invalid change by ${name(event.sender)} (slot ${event.slot}): ${event.reason}. The owner's agent rejects it, or the owner does: \`static channel reject-commit ${event.channel} ${event.slot}\`.`
    case 'commit_disputed':
      return `${event.channel}: ${event.members.length} member(s) could not follow a change by ${nameIn(event.identity, event.sender)}, or claim so: ${event.members.map(name).join(', ')}. They must leave and join again. If you do not trust ${name(event.sender)}, remove it with \`static channel remove\`.`
    case 'commit_rejected':
      return `${event.channel}: the members rejected a change by ${name(event.sender)}. Unless it is the owner, it cannot make another until the owner runs \`static channel lift-bar ${event.channel} ${event.sender.slice(0, 8)}\`. Members whose words of \`static channel verify\` equal yours see the same members as you; a member whose words differ may have followed that change, and must leave and join again.`
    case 'fork_detected':
      return `${event.channel}: fork detected: ${nameIn(event.identity, event.member)} reports a different history, so this agent has stopped sending. Compare the words of \`static channel verify\` with that member. If they are equal, both have seen the same history, and its report is wrong: ask the owner to remove it, or run \`static channel accept-fork ${event.channel}\`. If they differ, the relay has shown you different histories.`
    case 'channel_failed':
      return `${event.channel} failed: ${event.error.message}`
    case 'waiting':
      return `${event.channel}: no message has been accepted since ${new Date(event.since).toISOString()}, still trying: ${event.error.message}`
    case 'throttled':
      return `${event.channel}: the relay is deferring a change, retrying in ${Math.ceil(event.waitMs / 1000)} s: ${event.error.message}`
    case 'handler_failed':
      return `${event.channel}: the handler failed on message ${event.messageId} (attempt ${event.attempts}), retrying in ${event.retryInMs / 1000} s: ${event.reason}`
    case 'poison':
      return event.isPutAside
        ? `${event.channel}: message ${event.messageId} failed ${event.attempts} times and was put aside: ${event.reason} See \`static channel poison list\`.`
        : `${event.channel}: message ${event.messageId} failed ${event.attempts} times and cannot be put aside, because too many are. Retry or drop some: \`static channel poison list\`.`
    case 'request_failed':
      return `${event.channel}: the handler failed on request ${event.index} from ${name(event.sender)}: ${event.reason}`
    case 'request_ignored':
      return `${event.channel}: ignored request ${event.index} from ${name(event.sender)}: ${event.reason === 'malformed' ? 'it is malformed.' : 'too many are waiting for this agent.'}`
    case 'answer_ignored':
      return `${event.channel}: ignored answer ${event.index} from ${name(event.sender)} (${event.reason}).`
    case 'proof_checked':
      return `${event.channel}: ${name(event.member)} is ${shownProof(event.proof)}.`
    case 'proof_lapsed':
      return `${event.channel}: the proof of ${name(event.member)} does not count now: ${shownProof(event.proof)}.`
    case 'member_unproven':
      return `${event.channel}: ${name(event.member)} did not show a proof that you require${event.proof ? `; it ${shownProof(event.proof)}` : ''}. Removing it.`
    case 'trust_failed':
      return `Proofs cannot be checked: ${event.error.message}`
    case 'proof_ending':
      return `The statement of ${event.domain} about this agent ends at ${shortTime(event.until.toISOString())}. Have it signed again: \`static domain sign\` where the key of ${event.domain} is.`
    case 'join_refused':
      return `${event.channel}: refused agent ${shortFingerprint(event.agent)}, which asked to join with invite ${shortFingerprint(event.invite)}: ${event.reason}`
    case 'inbox_full':
      return `${event.channel}: the inbox is full. No more messages are fetched until you read some.`
    case 'welcome_refused':
      return `${event.channel}: refused an invalid Welcome: ${event.error.message}`
  }
}
