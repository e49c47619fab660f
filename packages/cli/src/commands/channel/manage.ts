/** `static channel create|list|verify|rotate|reset-roster|leave`: one agent action each. */
import { Command } from 'commander'
import { addAgentFlags, type AgentFlags, commandLineFor, runOnAgent, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument } from './arguments.ts'

export function createCommand(): Command {
  return addAgentFlags(
    new Command('create')
      .description('create a channel, or open it if this agent already owns it')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel create acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const made = await withAgent(flags, { share: false, create: true }, (agent) =>
        withProgress('Creating the channel', agent.call('create', name)),
      )
      if (flags.json) return printJson(made)
      // A new channel has one member: with more, it existed before and was opened.
      print(`${made.members === 1 ? 'Created' : 'Opened'} ${made.name} (${count(made.members)}).`)
      const [listen, invite] = ['listen', 'invite'].map((verb) => commandLineFor(flags, `channel ${verb} ${name}`))
      note(`next: \`${listen}\`, and \`${invite}\` to invite others.`)
    })
}

export function listCommand(): Command {
  return addAgentFlags(new Command('list').description('list the channels of the agent'))
    .addHelpText('after', examples('static channel list', 'static channel list --as billing --json'))
    .action(async (flags: AgentFlags) => {
      const channels = await withAgent(flags, { share: false, wait: true }, (agent) =>
        withProgress('Reading channels', agent.call('list')),
      )
      if (flags.json) return printJson({ channels })
      if (channels.length === 0) return note('this agent is not in any channel.')
      const rows = channels.map(({ name, own, confirmed, members, error, channel_id: id }) => [
        name,
        own ? 'owner' : confirmed ? 'member' : 'member, unconfirmed',
        members === null ? stateOf(error) : String(members),
        id,
      ])
      print(table(['CHANNEL', 'ROLE', 'MEMBERS', 'ID'], rows))
      if (channels.some(({ stale }) => stale)) note('the relay does not answer: this is what the agent last knew.')
    })
}

export function verifyCommand(): Command {
  return addAgentFlags(
    new Command('verify')
      .description('print twelve words that match for all members who see the same history')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel verify acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const words = await runOnAgent(flags, 'Reading channels', 'verify', name)
      if (flags.json) return printJson({ channel: name, words: words.split(' ') })
      print(words)
      note(
        'compare these words with another member out of band, while no messages are being sent. If they differ, the relay has shown you different things, or someone is in the middle.',
      )
    })
}

export function rotateCommand(): Command {
  return addAgentFlags(
    new Command('rotate')
      .description("replace this agent's encryption keys in a channel, so that stolen ones become useless")
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel rotate acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      await runOnAgent(flags, 'Replacing keys', 'rotate', name)
      if (flags.json) printJson({ channel: name, rotated: true })
      else print(`Replaced the keys of this agent in ${name}.`)
    })
}

export function resetRosterCommand(): Command {
  return addAgentFlags(
    new Command('reset-roster')
      .description("reset the relay's list of members of a channel you own to the members of its group")
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
    new Command('leave')
      .description('leave a channel; its owner must delete it instead')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel leave acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      await runOnAgent(flags, 'Leaving the channel', 'leave', name)
      if (flags.json) printJson({ channel: name, left: true })
      else print(`Left ${name}.`)
    })
}

/** The text shown in place of the number of members. */
function stateOf(error: string | undefined): string {
  if (error === 'not_found') return 'deleted'
  return error === 'removed' ? 'removed' : 'broken'
}

function count(members: number | null): string {
  return members === 1 ? '1 member' : `${members ?? 'unknown number of'} members`
}
