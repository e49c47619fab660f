/** `static channel invite`: creates a token that lets others join. */
import { Command } from 'commander'
import { addAgentFlags, type AgentFlags, commandLineFor, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, commandLine } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument, wholeNumber } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly uses: number
  readonly ttl: number
}

export function inviteCommand(): Command {
  return addAgentFlags(
    new Command('invite')
      .description('create a token that lets others join a channel you own; keep it secret')
      .addArgument(channelArgument())
      .option('--uses <count>', 'how many agents may join with the token', wholeNumber, 1)
      .option('--ttl <seconds>', 'how long the token is valid', wholeNumber, 3600),
  )
    .addHelpText(
      'after',
      `
Others can join only while this agent listens: keep \`static channel listen\` running.
${examples('static channel invite acme/support/routing', 'static channel invite acme/support/routing --uses 10 --ttl 86400')}`,
    )
    .action(invite)
}

async function invite(name: string, flags: Flags): Promise<void> {
  const { token, remote } = await withAgent(flags, { share: false }, async (agent) => {
    const work = agent.call('invite', name, flags.uses, flags.ttl)
    return { token: await withProgress('Creating an invite', work), remote: agent.remote }
  })
  if (flags.json) return printJson({ channel: name, token, uses: flags.uses, ttl: flags.ttl })
  print(token)
  note(
    remote
      ? `this agent is listening: others can now run \`${commandLine(`channel join ${name}`)}\` with the token.`
      : `keep \`${commandLineFor(flags, `channel listen ${name}`)}\` running: others can join only while this agent listens.`,
  )
}
