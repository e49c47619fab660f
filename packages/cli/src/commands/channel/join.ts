/** `static channel join`: joins a channel with an invite token. */
import { Argument, Command } from 'commander'
import { addAgentFlags, type AgentFlags, commandLineFor, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { secretOf } from '../../terminal/secrets.ts'
import { channelArgument, seconds } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly tokenFile?: string
  readonly timeout: number
}

export function joinCommand(): Command {
  return addAgentFlags(
    new Command('join')
      .description('join a channel with an invite token, while its owner is listening; no account needed')
      .addArgument(channelArgument())
      .addArgument(
        new Argument('[token]', 'the token, visible in the process list; prefer the prompt, stdin or --token-file'),
      )
      .option('--token-file <file>', 'read the token from a file')
      .option('--timeout <seconds>', 'how long to wait for the owner', seconds, 60),
  )
    .addHelpText(
      'after',
      examples('static channel join acme/support/routing', 'static channel join acme/support/routing --as bob < token'),
    )
    .action(join)
}

async function join(name: string, argument: string | undefined, flags: Flags): Promise<void> {
  const token = await secretOf({
    what: 'token',
    argument,
    file: flags.tokenFile,
    instead: 'stdin or --token-file',
  })
  const joined = await withAgent(flags, { share: true }, (agent) =>
    withProgress('Waiting for the owner', agent.call('join', name, token.trim(), flags.timeout)),
  )
  if (flags.json) return printJson(joined)
  print(`Joined ${name} (${joined.members} members). Its owner is ${joined.owner}.`)
  const [listen, verify] = ['listen', 'verify'].map((verb) => commandLineFor(flags, `channel ${verb} ${name}`))
  note(`next: \`${listen}\`; \`${verify}\` checks that all members see the same history.`)
}
