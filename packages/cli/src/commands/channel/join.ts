/** `static channel join`: joins a channel with an invite link or token. */
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import {
  isInviteLink,
  parseEndpoint,
  parseInviteLink,
  readAuthority,
  readRelayFile,
  writeRelayFile,
} from '@static/sdk/account'
import { accountOf } from '../../account/account.ts'
import type { ChannelSummary } from '../../agent/actions.ts'
import {
  addAgentFlags,
  type AgentFlags,
  commandLineFor,
  type OpenAgent,
  openAgent,
  withAgent,
} from '../../agent/open.ts'
import { agentPlace } from '../../agent/place.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { untilInterrupted } from '../../terminal/interrupt.ts'
import { secretOf } from '../../terminal/secrets.ts'
import { seconds } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly tokenFile?: string
  readonly timeout: number
  readonly show?: string
  readonly ephemeral?: boolean
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
      .option('--timeout <seconds>', 'how long to wait to be let in', seconds, 60)
      .option('--show <issuer>', 'show the members who runs this agent: a domain, or github-actions')
      .option('--ephemeral', 'stay open for other commands until Ctrl-C or SIGTERM, then leave the channel'),
  )
    .addHelpText(
      'after',
      `
A link (\`static channel invite --link\`) contains the relay's address and works on any machine. An agent keeps the relay of
its first link, and without an account the one given with --relay; for a link to another relay, use another agent (--as). An agent that joins with a link is a guest: your API
key is never sent to an address from a link.
With --show, all members see the proof that this agent has (\`static agent add-proof\`), and can show it to others. In a
job of GitHub Actions, --show github-actions gets a token from it.
${examples(
  'static channel join < link',
  'static channel join acme/support/routing --as bob < token',
  'static channel join acme/support/routing --as deployer --show acme.example < token',
  'static channel join acme/support/routing --show github-actions --ephemeral < token',
)}`,
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
  if (isInviteLink(secret)) await joinLink(secret.trim(), name, flags)
  else await joinToken(secret, name, flags)
}

type Joining = (agent: OpenAgent) => Promise<ChannelSummary>

/** Joins. With --ephemeral, the agent then stays open until the command is stopped, and leaves. */
async function enter(flags: Flags, link: string | undefined, joining: Joining): Promise<void> {
  const how = { share: true, create: true, link }
  if (!flags.ephemeral) {
    return show(await withAgent(flags, how, (agent) => withProgress('Waiting to be admitted', joining(agent))), flags)
  }
  const agent = await openAgent(flags, how)
  try {
    const joined = await untilInterrupted(withProgress('Waiting to be admitted', joining(agent)))
    try {
      show(joined, flags)
      await untilInterrupted(Promise.withResolvers<never>().promise)
    } finally {
      // Not cut short by the signal that ends the command.
      await agent.call('leave', joined.name)
    }
  } finally {
    await agent.close()
  }
}

function show(joined: ChannelSummary, flags: Flags): void {
  if (flags.json) return printJson(joined)
  print(`Joined ${joined.name} (${joined.members} members). Its owner is ${joined.owner}.`)
  if (!joined.confirmed)
    note(
      'the owner has sent nothing since you joined. Until it does, a former member may have shown you an old state of the channel.',
    )
  const { relay: _, ca: __, ...place } = flags
  const needed = readRelayFile(agentPlace(flags).dataDir) === undefined ? flags : place
  const [listen, verify] = ['listen', 'verify'].map((verb) => commandLineFor(needed, `channel ${verb} ${joined.name}`))
  note(`next: \`${listen}\`; \`${verify}\` checks that all members see the same history.`)
}

async function joinToken(token: string, name: string | undefined, flags: Flags): Promise<void> {
  if (name === undefined) {
    throw StaticError.of(
      'invalid_request',
      'This is not an invite link. Name the channel to join with a token: `static channel join NAME`.',
    )
  }
  await enter(flags, undefined, async (agent) => {
    const joined = await agent.call('join', name, token.trim(), flags.timeout, flags.show ?? '')
    if (!agent.remote) keepRelay(flags)
    return joined
  })
}

/** Keeps the given relay and CA of a guest, which has no account that they are saved with. */
function keepRelay(flags: Flags): void {
  const { relay, apiKey } = flags
  const { dataDir } = agentPlace(flags)
  if (relay === undefined || apiKey !== undefined || readRelayFile(dataDir) !== undefined) return
  const account = accountOf(flags)
  if (account.apiKey !== undefined) return
  const relayName = process.env['STATIC_RELAY_NAME'] || undefined
  const { url: endpoint, serverName } = parseEndpoint(relay, { relayName })
  const ca = account.givenCa === undefined ? undefined : readAuthority(account.givenCa)
  writeRelayFile(dataDir, { endpoint, relayName: serverName, ca })
}

async function joinLink(link: string, name: string | undefined, flags: Flags): Promise<void> {
  const { channel, endpoint } = parseInviteLink(link)
  if (name !== undefined && name !== channel) {
    throw StaticError.of('invite_invalid', `The invite link is for channel ${channel}, not ${name}.`)
  }
  if (!flags.json) note(`the link is for ${channel} at ${endpoint}.`)
  await enter(flags, link, (agent) => agent.call('joinLink', link, flags.timeout, flags.show ?? ''))
}
