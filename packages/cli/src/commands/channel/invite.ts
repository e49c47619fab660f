/** `static channel invite`: a token by which others join. */
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
      .description('make a token by which others join an own channel: a secret, for those alone')
      .addArgument(channelArgument())
      .option('--uses <count>', 'how many may join by it', wholeNumber, 1)
      .option('--ttl <seconds>', 'for how long', wholeNumber, 3600),
  )
    .addHelpText(
      'after',
      `
They are let in while this agent listens: keep \`static channel listen\` running.
${examples('static channel invite acme/support/routing', 'static channel invite acme/support/routing --uses 10 --ttl 86400')}`,
    )
    .action(invite)
}

async function invite(name: string, flags: Flags): Promise<void> {
  const { token, remote } = await withAgent(flags, { share: false }, async (agent) => {
    const work = agent.call('invite', name, flags.uses, flags.ttl)
    return { token: await withProgress('Making an invite', work), remote: agent.remote }
  })
  if (flags.json) return printJson({ channel: name, token, uses: flags.uses, ttl: flags.ttl })
  print(token)
  note(
    remote
      ? `this agent is listening: whoever runs \`${commandLine(`channel join ${name}`)}\` with the token is let in.`
      : `keep \`${commandLineFor(flags, `channel listen ${name}`)}\` running: who joins by the token is let in only while this agent listens.`,
  )
}
