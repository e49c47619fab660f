/** `static channel standby|transfer|take-over`: who owns a channel, and who may take it over. */
import { Argument, Command } from 'commander'
import { shownIdentity, StaticError } from '@static/protocol'
import { addAgentFlags, type AgentFlags, runOnAgent } from '../../agent/open.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { print, printable, printJson } from '../../terminal/output.ts'
import { channelArgument } from './arguments.ts'
import { memberArgument } from './members.ts'

interface StandbyFlags extends AgentFlags {
  readonly none?: boolean
}

interface TakeOverFlags extends AgentFlags {
  readonly yes?: boolean
}

export function standbyCommand(): Command {
  return addAgentFlags(
    new Command('standby')
      .description('show or name the member that may take over a channel, in case the machine of its owner dies')
      .addArgument(channelArgument())
      .addArgument(new Argument('[member]', 'identity, fingerprint, or at least the first 8 digits of one'))
      .option('--none', 'no one may take the channel over'),
  )
    .addHelpText(
      'after',
      `
Without a member, it shows the standby. The standby can make itself the owner at any time, so name an agent that you trust with the channel: another machine of
yours, for example. It must be a member that you vouch for and that has sent something with an account.
${examples(
  'static channel standby acme/support/routing',
  'static channel standby acme/support/routing backup',
  'static channel standby acme/support/routing --none',
)}`,
    )
    .action(async (name: string, wanted: string | undefined, flags: StandbyFlags) => {
      if (wanted !== undefined && flags.none === true) {
        throw StaticError.of('invalid_request', 'Name one member as the standby, or pass --none for no one, not both.')
      }
      if (wanted === undefined && flags.none !== true) return await showStandby(name, flags)
      const standby = await runOnAgent(flags, 'Naming the standby', 'standby', name, wanted ?? null, false)
      if (flags.json) printJson({ channel: name, standby })
      else if (!standby) print(`${name} has no standby: only you can hand it over.`)
      else {
        const who = shownIdentity(standby.identity)
        print(`${who} is the standby of ${name}. It can run \`static channel take-over ${name}\` at any time.`)
      }
    })
}

async function showStandby(name: string, flags: StandbyFlags): Promise<void> {
  const members = await runOnAgent(flags, 'Reading the standby', 'members', name)
  const standby = members.find((member) => member.standby) ?? null
  if (flags.json) return printJson({ channel: name, standby })
  if (!standby) return print(`${name} has no standby.`)
  const self = standby.self ? ', this agent,' : ''
  print(`${shownIdentity(standby.identity)}${self} is the standby of ${name}: fingerprint ${standby.fingerprint}.`)
}

export function transferCommand(): Command {
  return addAgentFlags(
    new Command('transfer')
      .description('offer a channel you own to a member, which becomes its owner when it takes it over')
      .addArgument(channelArgument())
      .addArgument(memberArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      `
You own the channel, and pay for it, until the member has taken it over. Then you are a member like any other.
${examples('static channel transfer acme/support/routing bob')}`,
    )
    .action(async (name: string, wanted: string, flags: TakeOverFlags) => {
      if (!flags.yes) await confirm(`Offer ${name} to ${printable(wanted)}? It can then take the channel from you.`)
      const offered = await runOnAgent(flags, 'Offering the channel', 'standby', name, wanted, true)
      if (flags.json) return printJson({ channel: name, offered_to: offered })
      print(
        `Offered ${name} to ${shownIdentity(offered?.identity ?? wanted)}, which takes it over with \`static channel take-over ${name}\`. Until then you own it; withdraw with \`static channel standby ${name} --none\`.`,
      )
    })
}

export function takeOverCommand(): Command {
  return addAgentFlags(
    new Command('take-over')
      .description('become the owner of a channel whose owner has named you as its standby')
      .addArgument(channelArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      `
Your account pays for the channel from then on. The former owner stays as a member, whom you can remove. All invites end:
create new ones, and vouch again for the members that should count. Works while the former owner is gone.
${examples('static channel take-over acme/support/routing')}`,
    )
    .action(async (name: string, flags: TakeOverFlags) => {
      if (!flags.yes) await confirm(`Take ${name} over? Your account pays for it from then on, and its invites end.`)
      const former = await runOnAgent(flags, 'Taking the channel over', 'takeOver', name)
      if (flags.json) return printJson({ channel: name, taken_over: true, former_owner: former })
      const left = !former || former.self ? '' : ` ${shownIdentity(former.identity)} is a member now.`
      print(`You own ${name}.${left}`)
    })
}
