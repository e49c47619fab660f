/** Agent events other than messages, printed for the person at the terminal. */
import type { AgentEvent } from '@static/sdk'
import type { OpenAgent } from '../../agent/open.ts'
import { printable, note } from '../../terminal/output.ts'

/** Events that explain why sending takes long. */
const DELAYS = new Set<AgentEvent['type']>(['waiting', 'throttled', 'lagging'])

/** Prints each event to stderr, until the agent is closed. */
export async function printEvents(agent: OpenAgent, events: AsyncIterable<AgentEvent>): Promise<void> {
  let lost = false
  for await (const event of events) {
    // The first connection is expected; only a reconnection is worth printing.
    if (event.type === 'connected' && !lost) continue
    lost = event.type === 'disconnected'
    const words = await wordsOf(agent, event)
    if (words !== undefined) note(words)
  }
}

/** Prints only why something takes long, for a command that sends. */
export async function printDelays(agent: OpenAgent, events: AsyncIterable<AgentEvent>): Promise<void> {
  for await (const event of events) {
    if (DELAYS.has(event.type)) note((await wordsOf(agent, event)) ?? '')
  }
}

async function wordsOf(agent: OpenAgent, event: AgentEvent): Promise<string | undefined> {
  if (event.type === 'members_changed') return membersChanged(agent, event)
  return event.type === 'lagging' ? lagging(agent, event) : describe(event)
}

async function lagging(
  agent: OpenAgent,
  { channel, members }: Extract<AgentEvent, { type: 'lagging' }>,
): Promise<string> {
  const known = await agent.call('members', channel).catch(() => [])
  const names = members.map(({ agent: id, waiting }) => {
    const identity = known.find(({ agent_id: other }) => other === id)?.identity
    const name = identity === undefined ? `${id.slice(0, 8)}…` : `${printable(identity)} (${id.slice(0, 8)}…)`
    return `${name} has not fetched ${waiting} messages`
  })
  return `${channel}: the relay's room is running out, so sending is slowed down: ${names.join('; ')}. Start these members, or remove them.`
}

async function membersChanged(
  agent: OpenAgent,
  { channel, added, removed }: Extract<AgentEvent, { type: 'members_changed' }>,
): Promise<string | undefined> {
  const members = await agent.call('members', channel).catch(() => [])
  const names = members
    .filter((member) => added.includes(member.agent_id) && !member.self)
    .map(({ identity, agent_id: id }) => `${printable(identity)} (${id.slice(0, 8)}…)`)
  const gone = removed.map((id) => `${id.slice(0, 8)}…`)
  if (names.length === 0 && gone.length === 0) return undefined
  const joined = names.length > 0 ? `${names.join(', ')} joined` : ''
  const left = gone.length > 0 ? `${gone.join(', ')} left or was removed` : ''
  return `${channel}: ${[joined, left].filter(Boolean).join('; ')}.`
}

function describe(event: Exclude<AgentEvent, { type: 'members_changed' | 'lagging' }>): string | undefined {
  switch (event.type) {
    case 'connected':
      return `reconnected over ${event.way === 'quic' ? 'QUIC' : 'gRPC'}.`
    case 'disconnected':
      return `connection lost, reconnecting: ${event.error.message}`
    case 'rekeyed':
    // Asked for, so shown by the command that asks.
    case 'receipt':
      return undefined
    case 'confirmed':
      return `${event.channel}: the owner has confirmed this channel.`
    case 'admitted':
      return event.beyond
        ? `${event.channel}: ${event.by.slice(0, 8)}… admitted ${event.member.slice(0, 8)}… with invite ${event.invite.slice(0, 8)}…, which had no uses left or was revoked. The owner's agent removes it.`
        : `${event.channel}: ${event.by.slice(0, 8)}… admitted ${event.member.slice(0, 8)}… with invite ${event.invite.slice(0, 8)}….`
    case 'identity_changed':
      return `${event.channel}: ${printable(Buffer.from(event.identity).toString())} has a different key than before. Verify its fingerprint with its owner out of band.`
    case 'roster_lie':
      return `${event.channel}: the relay sent false information: ${printable(event.detail)}`
    case 'gap':
      return `${event.channel}: messages ${event.first} to ${event.last} were deleted before this agent received them.`
    case 'decryption_failure':
      return `${event.channel}: message ${event.index} could not be decrypted and was skipped.`
    case 'sender_unreadable':
      return `${event.channel}: eight messages in a row from ${event.sender.slice(0, 8)}… could not be decrypted. If this goes on, replace the keys with \`static channel rotate\`.`
    case 'unknown_version':
      return `${event.channel}: skipped a message of version ${event.version} from ${event.sender.slice(0, 8)}…. Update this program to read it.`
    case 'commit_skipped':
      if (event.reason === 'unfollowable')
        return `${event.channel}: this agent cannot follow a change by ${event.sender.slice(0, 8)}…. The owner's next message shows whether the owner could.`
      return `${event.channel}: skipped an invalid change by ${event.sender.slice(0, 8)}…: ${printable(event.reason)}`
    case 'commit_disputed':
      return `${event.channel}: ${event.members.length} member(s) could not follow a change by ${printable(Buffer.from(event.identity).toString())} (${event.sender.slice(0, 8)}…), or claim so: ${event.members.map((id) => `${id.slice(0, 8)}…`).join(', ')}. They must leave and join again. If you do not trust ${event.sender.slice(0, 8)}…, remove it with \`static channel remove\`.`
    case 'commit_rejected':
      return `${event.channel}: the members rejected a change by ${event.sender.slice(0, 8)}….`
    case 'fork_detected':
      return `${event.channel}: fork detected: another member sees a different history. Sending has stopped. Compare the words of \`static channel verify\`.`
    case 'channel_failed':
      return `${event.channel} failed: ${event.error.message}`
    case 'waiting':
      return `${event.channel}: no message has been accepted since ${new Date(event.since).toISOString()}, still trying: ${event.error.message}`
    case 'throttled':
      return `${event.channel}: the relay puts off a change, trying again in ${Math.ceil(event.waitMs / 1000)} s: ${event.error.message}`
    case 'handler_failed':
      return `${event.channel}: the handler failed on message ${event.messageId} (attempt ${event.attempts}), retrying in ${event.retryInMs / 1000} s: ${printable(event.reason)}`
    case 'poison':
      return event.isPutAside
        ? `${event.channel}: message ${event.messageId} failed ${event.attempts} times and was put aside: ${printable(event.reason)} See \`static channel poison list\`.`
        : `${event.channel}: message ${event.messageId} failed ${event.attempts} times and cannot be put aside, because too many are. Retry or drop some: \`static channel poison list\`.`
    case 'request_failed':
      return `${event.channel}: the handler failed on request ${event.index} of ${event.sender.slice(0, 8)}…: ${printable(event.reason)}`
    case 'request_ignored':
      return `${event.channel}: ignored request ${event.index} of ${event.sender.slice(0, 8)}…: ${event.reason === 'malformed' ? 'it is malformed.' : 'too many wait for this agent.'}`
    case 'answer_ignored':
      return `${event.channel}: ignored answer ${event.index} of ${event.sender.slice(0, 8)}… (${event.reason}).`
    case 'inbox_full':
      return `${event.channel}: the inbox is full. No more messages are fetched until you read some.`
    case 'welcome_refused':
      return `${event.channel}: refused an invalid Welcome: ${event.error.message}`
  }
}
