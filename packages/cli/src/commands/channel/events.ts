/** What happens beside the messages, told to the person at the terminal. */
import type { AgentEvent } from '@static/sdk'
import type { OpenAgent } from '../../agent/open.ts'
import { printable, note } from '../../terminal/output.ts'

/** Tells each event on stderr, until the agent is closed. */
export async function printEvents(agent: OpenAgent, events: AsyncIterable<AgentEvent>): Promise<void> {
  let lost = false
  for await (const event of events) {
    // The first connection is no news; one after a loss is.
    if (event.type === 'connected' && !lost) continue
    lost = event.type === 'disconnected'
    const words = event.type === 'members_changed' ? await membersChanged(agent, event) : describe(event)
    if (words !== undefined) note(words)
  }
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
  const left = gone.length > 0 ? `${gone.join(', ')} is gone` : ''
  return `${channel}: ${[joined, left].filter(Boolean).join('; ')}.`
}

function describe(event: Exclude<AgentEvent, { type: 'members_changed' }>): string | undefined {
  switch (event.type) {
    case 'connected':
      return `connected again, by ${event.way === 'quic' ? 'QUIC' : 'gRPC'}.`
    case 'disconnected':
      return `the connection is lost, and dialled again: ${event.error.message}`
    case 'rekeyed':
      return undefined
    case 'identity_changed':
      return `${event.channel}: ${printable(Buffer.from(event.identity).toString())} has another key than before: compare its fingerprint with its holder.`
    case 'roster_lie':
      return `${event.channel}: the relay says something that is not so: ${printable(event.detail)}`
    case 'gap':
      return `${event.channel}: the messages ${event.first} to ${event.last} are gone before this agent got them.`
    case 'decryption_failure':
      return `${event.channel}: the message ${event.index} could not be opened and is left out.`
    case 'sender_unreadable':
      return `${event.channel}: the messages of ${event.sender.slice(0, 8)}… cannot be opened any more until it, or somebody, replaces the keys.`
    case 'unknown_version':
      return `${event.channel}: ${event.sender.slice(0, 8)}… writes messages of version ${event.version}, which this program leaves out: update it.`
    case 'commit_skipped':
      if (event.reason === 'unfollowable')
        return `${event.channel}: a change by ${event.sender.slice(0, 8)}… cannot be followed here: the next message of another shows whether the others did.`
      return `${event.channel}: a change by ${event.sender.slice(0, 8)}… breaks the rules and is left out: ${printable(event.reason)}`
    case 'commit_rejected':
      return `${event.channel}: the members have undone a change by ${event.sender.slice(0, 8)}….`
    case 'fork_detected':
      return `${event.channel}: a member was shown another history, and sending has stopped: compare \`static channel verify\`.`
    case 'channel_failed':
      return `${event.channel} cannot go on here: ${event.error.message}`
    case 'inbox_full':
      return `${event.channel}: too much is unread; it stands still until something is read.`
    case 'welcome_refused':
      return `${event.channel}: a Welcome came that cannot be used: ${event.error.message}`
  }
}
