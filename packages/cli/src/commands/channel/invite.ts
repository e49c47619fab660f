/** `static channel invite [list|revoke]`: tokens that let others join. */
import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import { isLocal, parseEndpoint, parseInviteLink } from '@static/sdk/account'
import packageJson from '../../../package.json' with { type: 'json' }
import { addAgentFlags, type AgentFlags, commandLineFor, runOnAgent, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, shortTime, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument, wholeNumber } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly uses: number
  readonly ttl: number
  readonly admit: 'owner' | 'members'
  readonly link?: boolean
  readonly linkEndpoint?: string
  readonly require: readonly string[]
  readonly replace?: boolean
}

export function inviteCommand(): Command {
  return addAgentFlags(
    new Command('invite')
      .description('create a token that lets others join a channel you own; keep it secret')
      .addArgument(channelArgument())
      .option('--uses <count>', 'how many agents may join with the token', wholeNumber, 1)
      .option('--ttl <seconds>', 'how long the token is valid', wholeNumber, 3600)
      .addOption(
        new Option('--admit <who>', 'who lets joiners in: only this agent, or any member with an account')
          .choices(['owner', 'members'])
          .default('owner'),
      )
      .addOption(
        new Option(
          '--require <rule>',
          'admit only agents that prove this, such as a domain that you trust; repeat it to accept any of several',
        )
          .argParser((rule: string, rules: readonly string[]) => [...rules, rule])
          .default([], 'no proof'),
      )
      .option('--replace', 'let a joiner take the place of members proven under the same name, as CI jobs need')
      .option(
        '--link',
        'print a link instead, which also contains what agents on other machines need to find the relay',
      )
      .option('--link-endpoint <url>', 'address of the relay in the link (default: the one this agent uses)')
      .enablePositionalOptions(),
  )
    .addCommand(listCommand())
    .addCommand(revokeCommand())
    .addHelpText(
      'after',
      `
Others can join only while this agent listens: keep \`static channel listen\` running. With --admit members, it is
enough if any member with an account listens. With --require, an agent must show a proof of an issuer that you trust
(\`static trust add\`): a domain, github:OWNER/REPOSITORY@REF, oidc:ISSUER#SUBJECT or spiffe://TRUST-DOMAIN/PATH.
${examples(
  'static channel invite acme/support/routing',
  'static channel invite acme/support/routing --uses 10 --ttl 86400',
  'static channel invite acme/support/routing --admit members --ttl 86400',
  'static channel invite acme/support/routing --link',
  'static channel invite acme/support/routing --link-endpoint quic://relay.example.com:4433',
  'static channel invite acme/support/routing --require acme.example',
  'static channel invite acme/support/routing --uses 1000 --require github:acme/app@refs/heads/main --replace',
  'static channel invite list acme/support/routing',
)}`,
    )
    .action(invite)
}

function listCommand(): Command {
  return addAgentFlags(
    new Command('list').description('list the invites to a channel you own').addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel invite list acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const invites = await runOnAgent(flags, 'Reading invites', 'invites', name)
      if (flags.json) return printJson({ channel: name, invites })
      if (invites.length === 0) return note(`there are no invites to ${name}.`)
      const rows = invites.map(({ id, admit, state, uses, max_uses: most, expires_at: end }) => [
        id,
        admit,
        state.replace('_', ' '),
        `${uses} of ${most}`,
        shortTime(end),
      ])
      print(table(['INVITE', 'ADMITTED BY', 'STATE', 'USED', 'EXPIRES'], rows))
    })
}

function revokeCommand(): Command {
  return addAgentFlags(
    new Command('revoke')
      .description('revoke an invite; agents that have joined with it stay')
      .addArgument(new Argument('<invite>', 'id of the invite, from `static channel invite list`').argParser(inviteId)),
  )
    .addHelpText('after', examples('static channel invite revoke 0f1e2d3c4b5a69788796a5b4c3d2e1f0'))
    .action(async (id: string, flags: AgentFlags) => {
      await runOnAgent(flags, 'Revoking the invite', 'revokeInvite', id)
      if (flags.json) printJson({ id, revoked: true })
      else print(`Revoked invite ${id}.`)
    })
}

/** Does not accept a token, because other users of the machine could read it in the process list. */
function inviteId(text: string): string {
  if (/^[0-9a-f]{32}$/.test(text)) return text
  throw new InvalidArgumentError('Expected 32 hexadecimal digits. `static channel invite list` shows the ids.')
}

async function invite(name: string, flags: Flags): Promise<void> {
  if (flags.link || flags.linkEndpoint !== undefined) return await inviteLink(name, flags)
  const { token, remote } = await withAgent(flags, { share: false }, async (agent) => {
    const work = agent.call('invite', name, flags.uses, flags.ttl, flags.admit, flags.require, flags.replace ?? false)
    return { token: await withProgress('Creating an invite', work), remote: agent.remote }
  })
  if (flags.json) return printJson({ channel: name, token, uses: flags.uses, ttl: flags.ttl, admit: flags.admit })
  print(token)
  note(joinHint('token', name, flags, remote))
}

async function inviteLink(name: string, flags: Flags): Promise<void> {
  const { linkEndpoint = '', uses, ttl, admit } = flags
  const { link, remote } = await withAgent(flags, { share: false }, async (agent) => {
    const work = agent.call('inviteLink', name, uses, ttl, admit, linkEndpoint, flags.require, flags.replace ?? false)
    return { link: await withProgress('Creating an invite', work), remote: agent.remote }
  })
  const { endpoint, relayName } = parseInviteLink(link)
  if (isLocal(parseEndpoint(endpoint, { relayName }))) {
    note(
      `the link points to ${endpoint}, which only this machine can reach. For others, pass --link-endpoint with an address ` +
        'that they can reach; `static up` listens on one with --host.',
    )
  }
  if (flags.json) return printJson({ channel: name, link, endpoint, uses, ttl, admit })
  print(link)
  note(joinHint('link', name, flags, remote))
}

/**
 * Tells how others join. They have their own copy of Static, such as the archive of `npm run release`, and must never
 * use `npx static`: outside this checkout, it would run a stranger's package, with the token on its input.
 */
export function joinHint(
  what: 'token' | 'link',
  name: string,
  flags: Pick<Flags, 'admit'> & Partial<Pick<Flags, 'require'>> & AgentFlags,
  remote: boolean,
): string {
  const { version } = packageJson
  const elsewhere = what === 'token' ? ' A machine that does not use this relay yet needs a link: add --link.' : ''
  const others = `others with Static ${version} (static-${version}-linux-x64.tar.gz)`
  const how = `\`static channel join${what === 'token' ? ` ${name}` : ''}${shown(flags.require)}\` and paste the ${what}`
  if (flags.admit === 'members') {
    return `${others} can run ${how}, and join while this agent or another member with an account listens.${elsewhere}`
  }
  return remote
    ? `this agent is listening: ${others} can now run ${how}.${elsewhere}`
    : `keep \`${commandLineFor(flags, `channel listen ${name}`)}\` running: others can join only while this agent listens.${elsewhere}`
}

/** What a joiner shows to satisfy the first rule; other issuers have no name on the command line. */
function shown([rule]: readonly string[] = []): string {
  if (rule === undefined) return ''
  if (!rule.includes(':')) return ` --show ${rule}`
  return rule.startsWith('github:') ? ' --show github-actions' : ''
}
