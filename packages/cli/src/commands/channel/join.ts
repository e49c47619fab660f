/** `static channel join`: joins a channel with an invite link or token. */
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import { isInviteLink, parseInviteLink } from '@static/sdk/account'
import type { ChannelSummary } from '../../agent/actions.ts'
import { addAgentFlags, type AgentFlags, commandLineFor, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { secretOf } from '../../terminal/secrets.ts'
import { seconds } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly tokenFile?: string
  readonly timeout: number
}

export function joinCommand(): Command {
  return addAgentFlags(
    new Command('join')
      .description(
        'join a channel with an invite link or token; an agent that can admit you must be listening; no account needed',
      )
      .addArgument(new Argument('[channel]', 'name of the channel, for a token; a link contains it'))
      .addArgument(
        new Argument('[token]', 'the token, visible in the process list; prefer the prompt, stdin or --token-file'),
      )
      .option('--token-file <file>', 'read the link or token from a file')
      .option('--timeout <seconds>', 'how long to wait to be let in', seconds, 60),
  )
    .addHelpText(
      'after',
      `
A link (\`static channel invite --link\`) contains the relay's address and works on any machine. An agent keeps the relay of
its first link; for a link to another relay, use another agent (--as). An agent that joins with a link is a guest: your API
key is never sent to an address from a link.
${examples('static channel join < link', 'static channel join acme/support/routing --as bob < token')}`,
    )
    .action(join)
}

async function join(first: string | undefined, second: string | undefined, flags: Flags): Promise<void> {
  // A link can replace the name.
  const isLinkFirst = first !== undefined && isInviteLink(first)
  const name = isLinkFirst ? undefined : first
  const secret = await secretOf({
    what: name === undefined ? 'link' : 'token',
    argument: isLinkFirst ? first : second,
    file: flags.tokenFile,
    instead: 'stdin or --token-file',
  })
  const joined = isInviteLink(secret)
    ? await joinLink(secret.trim(), name, flags)
    : await joinToken(secret, name, flags)
  if (flags.json) return printJson(joined)
  print(`Joined ${joined.name} (${joined.members} members). Its owner is ${joined.owner}.`)
  if (!joined.confirmed)
    note(
      'the owner has sent nothing since you joined. Until it does, a former member may have shown you an old state of the channel.',
    )
  const [listen, verify] = ['listen', 'verify'].map((verb) => commandLineFor(flags, `channel ${verb} ${joined.name}`))
  note(`next: \`${listen}\`; \`${verify}\` checks that all members see the same history.`)
}

async function joinToken(token: string, name: string | undefined, flags: Flags): Promise<ChannelSummary> {
  if (name === undefined) {
    throw StaticError.of(
      'invalid_request',
      'This is not an invite link. Name the channel to join with a token: `static channel join NAME`.',
    )
  }
  return await withAgent(flags, { share: true, create: true }, (agent) =>
    withProgress('Waiting to be admitted', agent.call('join', name, token.trim(), flags.timeout)),
  )
}

async function joinLink(link: string, name: string | undefined, flags: Flags): Promise<ChannelSummary> {
  const { channel, endpoint } = parseInviteLink(link)
  if (name !== undefined && name !== channel) {
    throw StaticError.of('invite_invalid', `The invite link is for channel ${channel}, not ${name}.`)
  }
  if (!flags.json) note(`the link is for ${channel} at ${endpoint}.`)
  return await withAgent(flags, { share: true, create: true, link }, (agent) =>
    withProgress('Waiting to be admitted', agent.call('joinLink', link, flags.timeout)),
  )
}
