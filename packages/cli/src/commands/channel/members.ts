/** `static channel members|vouch|remove|accept-new-key`: the members of a channel. */
import { Argument, Command } from 'commander'
import { shownIdentity, StaticError } from '@static/protocol'
import type { MemberSummary } from '../../agent/members.ts'
import { HostClosed } from '../../agent/host-client.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, runOnAgent, withAgent } from '../../agent/open.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printable, printJson, table } from '../../terminal/output.ts'
import { channelArgument } from './arguments.ts'

interface MembersFlags extends AgentFlags {
  readonly watch?: boolean
}

interface RemoveFlags extends AgentFlags {
  readonly yes?: boolean
}

export function membersCommand(): Command {
  return addAgentFlags(
    new Command('members')
      .description('list the members of a channel')
      .addArgument(channelArgument())
      .option('--watch', 'then print each member that joins or leaves, until Ctrl-C'),
  )
    .addHelpText(
      'after',
      `
With --watch --json, each line is the complete list after a change.
${examples('static channel members acme/support/routing', 'static channel members acme/support/routing --watch')}`,
    )
    .action(async (name: string, flags: MembersFlags) => {
      if (flags.watch) return await watch(name, flags)
      const members = await runOnAgent(flags, 'Reading channels', 'members', name)
      if (flags.json) printJson({ channel: name, members })
      else printMembers(members)
    })
}

export function vouchCommand(): Command {
  return addAgentFlags(
    new Command('vouch')
      .description('vouch for a member of a channel you own, so that it counts in votes and limits')
      .addArgument(channelArgument())
      .addArgument(memberArgument()),
  )
    .addHelpText(
      'after',
      `
You already vouch for members that joined with an invite of one use. Vouch for others once you know who runs them.
${examples('static channel vouch acme/support/routing bob', 'static channel vouch acme/support/routing 5f0c8e2a')}`,
    )
    .action(async (name: string, member: string, flags: AgentFlags) => {
      const vouched = await runOnAgent(flags, 'Vouching for the member', 'vouch', name, member)
      if (flags.json) printJson({ channel: name, vouched })
      else print(`You vouch for ${describe(vouched)} in ${name}.`)
    })
}

export function removeCommand(): Command {
  return addAgentFlags(
    new Command('remove')
      .description('remove a member from a channel you own, and revoke the invite it joined with')
      .addArgument(channelArgument())
      .addArgument(memberArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      `
The member cannot read anything sent from now on. It can still read messages that it has already received.
${examples('static channel remove acme/support/routing bob', 'static channel remove acme/support/routing 5f0c8e2a --yes')}`,
    )
    .action(async (name: string, member: string, flags: RemoveFlags) => {
      if (!flags.yes) await confirm(`Remove ${printable(member)} from ${name}?`)
      const removed = await runOnAgent(flags, 'Removing the member', 'remove', name, member)
      if (flags.json) printJson({ channel: name, removed })
      else print(`Removed ${describe(removed)} from ${name}.`)
    })
}

export function acceptNewKeyCommand(): Command {
  return addAgentFlags(
    new Command('accept-new-key')
      .description('accept a different key for an identity that this agent admitted before')
      .addArgument(channelArgument())
      .addArgument(new Argument('<identity>', 'the identity with the new key'))
      .addArgument(new Argument('<agent>', 'the new fingerprint; compare it with the holder out of band')),
  )
    .addHelpText(
      'after',
      `
An agent that asks to join under such an identity with another key gets \`identity_changed\`: either its holder has a new
directory, or someone else uses the name. Once you accept the key, the same invite lets the agent in. A member that has the
identity must be removed first.
${examples(`static channel accept-new-key acme/support/routing bob ${'5f0c8e2a'.repeat(8)}`)}`,
    )
    .action(async (name: string, identity: string, agent: string, flags: AgentFlags) => {
      await runOnAgent(flags, 'Accepting the key', 'acceptNewKey', name, identity, agent)
      if (flags.json) printJson({ channel: name, identity, agent_id: agent, accepted: true })
      else print(`Accepted the new key of ${printable(identity)}.`)
    })
}

export function memberArgument(): Argument {
  return new Argument('<member>', 'identity, fingerprint, or at least the first 8 digits of one')
}

async function watch(name: string, flags: AgentFlags): Promise<void> {
  let shown: readonly MemberSummary[] | undefined
  // Shared, so that other commands can use the agent meanwhile. If another process held the agent and exits, this one
  // opens it.
  await withAgent(flags, { share: true }, async (agent) => {
    const first = await agent.call('members', name)
    if (shown === undefined && !flags.json) {
      printMembers(first)
      note(`watching the members of ${name}; press Ctrl-C to stop.`)
    }
    for (let members = first; ; members = await nextMembers(agent, name, members)) {
      if (flags.json) printIfChanged(name, shown, members)
      else if (shown !== undefined) printChanges(shown, members)
      shown = members
    }
  })
}

async function nextMembers(
  agent: OpenAgent,
  name: string,
  known: readonly MemberSummary[],
): Promise<readonly MemberSummary[]> {
  const ids = known.map(({ agent_id: id }) => id)
  try {
    return await agent.call('watchMembers', name, ids)
  } catch (error) {
    // Watching changes nothing, so it can continue with another process.
    if (agent.remote && error instanceof StaticError && error.code === 'closed') throw new HostClosed()
    throw error
  }
}

function printMembers(members: readonly MemberSummary[]): void {
  const isProven = members.some(({ proof }) => proof)
  const rows = members.map(({ identity, owner, standby, self, vouched, fingerprint, proof }) => [
    shownIdentity(identity),
    [
      ...(owner ? ['owner'] : []),
      ...(standby ? ['standby'] : []),
      ...(self ? ['you'] : []),
      ...(vouched === false ? ['not vouched'] : []),
    ].join(', '),
    fingerprint,
    ...(isProven ? [proof?.name ?? ''] : []),
  ])
  print(table(['IDENTITY', 'ROLE', 'FINGERPRINT', ...(isProven ? ['RUN BY'] : [])], rows))
}

function printIfChanged(
  channel: string,
  before: readonly MemberSummary[] | undefined,
  members: readonly MemberSummary[],
): void {
  const isSame = before !== undefined && missing(before, members).length + missing(members, before).length === 0
  if (!isSame) printJson({ channel, members })
}

function printChanges(before: readonly MemberSummary[], after: readonly MemberSummary[]): void {
  for (const member of missing(after, before)) print(`${describe(member)} joined.`)
  for (const member of missing(before, after)) print(`${describe(member)} left or was removed.`)
}

function missing(some: readonly MemberSummary[], from: readonly MemberSummary[]): readonly MemberSummary[] {
  return some.filter(({ agent_id: id }) => !from.some((other) => other.agent_id === id))
}

function describe({ identity, fingerprint }: MemberSummary): string {
  return `${shownIdentity(identity)} (${fingerprint})`
}
