/** `static channel create|list|members|verify|reset-roster|leave|delete`: one action of the agent each. */
import { Command } from 'commander'
import type { ActionArgs, ActionName, ActionResult } from '../../agent/actions.ts'
import { addAgentFlags, type AgentFlags, commandLineFor, withAgent } from '../../agent/open.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument } from './arguments.ts'

interface DeleteFlags extends AgentFlags {
  readonly yes?: boolean
}

export function createCommand(): Command {
  return addAgentFlags(
    new Command('create')
      .description('create a channel and own it; one that this agent owns already is opened')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel create acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const made = await runOnAgent(flags, 'Creating the channel', 'create', name)
      if (flags.json) return printJson(made)
      print(`${made.name} is there, with ${count(made.members)}.`)
      const [listen, invite] = ['listen', 'invite'].map((verb) => commandLineFor(flags, `channel ${verb} ${name}`))
      note(`next: \`${listen}\`, and \`${invite}\` for others.`)
    })
}

export function listCommand(): Command {
  return addAgentFlags(new Command('list').description('list the channels that the agent is in'))
    .addHelpText('after', examples('static channel list', 'static channel list --as billing --json'))
    .action(async (flags: AgentFlags) => {
      const channels = await runOnAgent(flags, 'Reading', 'list')
      if (flags.json) return printJson({ channels })
      if (channels.length === 0) return note('this agent is in no channel.')
      const rows = channels.map(({ name, own, members, error, channel_id: id }) => [
        name,
        own ? 'owner' : 'member',
        members === null ? stateOf(error) : String(members),
        id,
      ])
      print(table(['CHANNEL', 'ROLE', 'MEMBERS', 'ID'], rows))
    })
}

export function membersCommand(): Command {
  return addAgentFlags(new Command('members').description('list who is in a channel').addArgument(channelArgument()))
    .addHelpText('after', examples('static channel members acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const members = await runOnAgent(flags, 'Reading', 'members', name)
      if (flags.json) return printJson({ channel: name, members })
      const rows = members.map(({ identity, owner, self, fingerprint }) => [
        identity,
        [...(owner ? ['owner'] : []), ...(self ? ['you'] : [])].join(', '),
        fingerprint,
      ])
      print(table(['IDENTITY', 'ROLE', 'FINGERPRINT'], rows))
    })
}

export function verifyCommand(): Command {
  return addAgentFlags(
    new Command('verify')
      .description('print twelve words that are the same for all members who have seen the same')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel verify acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const words = await runOnAgent(flags, 'Reading', 'verify', name)
      if (flags.json) return printJson({ channel: name, words: words.split(' ') })
      print(words)
      note('compare them with another member by another way, while nobody sends: they differ if the relay lies.')
    })
}

export function resetRosterCommand(): Command {
  return addAgentFlags(
    new Command('reset-roster')
      .description("make the relay's roster of an own channel the members of its group")
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel reset-roster acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const members = await runOnAgent(flags, 'Resetting the roster', 'resetRoster', name)
      if (flags.json) printJson({ channel: name, members })
      else print(`Reset the roster of ${name} (${count(members)}).`)
    })
}

export function leaveCommand(): Command {
  return addAgentFlags(
    new Command('leave').description('leave a channel; its owner deletes it instead').addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel leave acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      await runOnAgent(flags, 'Leaving the channel', 'leave', name)
      if (flags.json) printJson({ channel: name, left: true })
      else print(`Left ${name}.`)
    })
}

export function deleteCommand(): Command {
  return addAgentFlags(
    new Command('delete')
      .description('delete an own channel for everybody')
      .addArgument(channelArgument())
      .option('--yes', 'do not ask'),
  )
    .addHelpText('after', examples('static channel delete acme/support/routing'))
    .action(async (name: string, flags: DeleteFlags) => {
      if (!flags.yes) await confirm(`${name} will be gone for all its members, for good. Go on?`)
      await runOnAgent(flags, 'Deleting the channel', 'delete', name)
      if (flags.json) printJson({ channel: name, deleted: true })
      else print(`Deleted ${name}.`)
    })
}

async function runOnAgent<Name extends ActionName>(
  flags: AgentFlags,
  doing: string,
  action: Name,
  ...args: ActionArgs<Name>
): Promise<ActionResult<Name>> {
  return await withAgent(flags, { share: false }, (agent) => withProgress(doing, agent.call(action, ...args)))
}

/** Why there is no count of members. */
function stateOf(error: string | undefined): string {
  if (error === 'not_found') return 'deleted'
  return error === 'removed' ? 'removed' : 'broken'
}

function count(members: number | null): string {
  return members === 1 ? 'one member' : `${members ?? 'no'} members`
}
