/** `static channel accept-fork|reject-commit|lift-bar`: how to continue after a lie or a rejected change. */
import { Argument, Command, InvalidArgumentError } from 'commander'
import { addAgentFlags, type AgentFlags, runOnAgent } from '../../agent/open.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { print, printJson } from '../../terminal/output.ts'
import { channelArgument } from './arguments.ts'

interface AcceptFlags extends AgentFlags {
  readonly yes?: boolean
}

export function acceptForkCommand(): Command {
  return addAgentFlags(
    new Command('accept-fork')
      .description('resume sending after a fork, although a member reports a different history')
      .addArgument(channelArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      `
Compare the words of \`static channel verify\` with that member first, out of band. If the words are equal, both have seen
the same history, and its report is wrong: the owner can remove it instead, which ends the fork for everyone. If they
differ, the relay has shown you different histories; with this command you go on with yours.
${examples('static channel accept-fork acme/support/routing')}`,
    )
    .action(async (name: string, flags: AcceptFlags) => {
      if (!flags.yes)
        await confirm('Have you compared the words of `static channel verify` with that member? Continue?')
      await runOnAgent(flags, 'Accepting the fork', 'acceptFork', name)
      if (flags.json) printJson({ channel: name, accepted: true })
      else print(`No fork keeps this agent from sending in ${name} now.`)
    })
}

export function rejectCommitCommand(): Command {
  return addAgentFlags(
    new Command('reject-commit')
      .description('declare a change to a channel you own invalid: the relay undoes it and bars its sender')
      .addArgument(channelArgument())
      .addArgument(new Argument('<slot>', 'the slot of the change, from the notice of `listen`').argParser(slotOf)),
  )
    .addHelpText(
      'after',
      `
Your agent automatically rejects changes that every member finds invalid. Use this command for one that it missed. The sender can change nothing
in the channel until you run \`static channel lift-bar\`; it can still send messages.
${examples('static channel reject-commit acme/support/routing 17')}`,
    )
    .action(async (name: string, slot: number, flags: AgentFlags) => {
      await runOnAgent(flags, 'Rejecting the change', 'rejectCommit', name, slot)
      if (flags.json) printJson({ channel: name, slot, rejected: true })
      else print(`Rejected the change in slot ${slot} of ${name}.`)
    })
}

export function liftBarCommand(): Command {
  return addAgentFlags(
    new Command('lift-bar')
      .description('let a member of a channel you own make changes again after one was rejected')
      .addArgument(channelArgument())
      .addArgument(new Argument('<member>', 'identity, fingerprint, or at least the first 8 digits of one')),
  )
    .addHelpText('after', examples('static channel lift-bar acme/support/routing bob'))
    .action(async (name: string, member: string, flags: AgentFlags) => {
      const { agent_id: id, name: shown } = await runOnAgent(flags, 'Lifting the bar', 'liftBar', name, member)
      if (flags.json) printJson({ channel: name, agent_id: id, lifted: true })
      else print(`No bar keeps ${shown} from changing ${name} now.`)
    })
}

function slotOf(text: string): number {
  if (/^\d{1,10}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected the number of a slot, as the notice of `listen` names it.')
}
