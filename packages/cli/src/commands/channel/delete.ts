/** `static channel delete`: as its owner, or by the key of the account where no agent on this machine owns it. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { accountOf, keyOf, relayOf } from '../../account/account.ts'
import { addAgentFlags, type AgentFlags, runOnAgent } from '../../agent/open.ts'
import { agentPlace, exists, isNamed, whyMissing } from '../../agent/place.ts'
import { confirmByName } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { untilInterrupted } from '../../terminal/interrupt.ts'
import { commandLine, note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument } from './arguments.ts'

interface Flags extends AgentFlags {
  readonly yes?: boolean
}

const DOING = 'Deleting the channel'

export function deleteCommand(): Command {
  return addAgentFlags(
    new Command('delete')
      .description('delete a channel for all members: one that this agent owns, or any of your account')
      .addArgument(channelArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      `
A channel that the agent does not own is deleted by the key of your account. So you can delete a channel whose owner is
gone with its machine, and use the name again.
${examples('static channel delete acme/support/routing')}`,
    )
    .action(deleteOne)
}

async function deleteOne(name: string, flags: Flags): Promise<void> {
  if (!flags.yes) await confirmByName(`${name} will be deleted for all its members, permanently.`, name)
  const hasAgent = await exists(agentPlace(flags).dataDir)
  // With a mistyped name, another channel could be meant.
  if (!hasAgent && isNamed(flags)) await withoutAgent(name, flags)
  const owned = hasAgent && (await runOnAgent(flags, DOING, 'delete', name))
  if (!owned) await deleteByKey(name, flags)
  if (flags.json) return printJson({ channel: name, deleted: true })
  print(`Deleted ${name}.`)
  if (!owned) note('it was deleted by the key of your account, not by its owner.')
}

/** An agent that is gone needs no new one: the key of the account deletes the channels that it owned. */
async function withoutAgent(name: string, flags: Flags): Promise<void> {
  const missing = await whyMissing(flags)
  const variables = ['STATIC_IDENTITY', 'STATIC_DATA_DIR'].filter((variable) => process.env[variable])
  const unset = flags.as === undefined && flags.dataDir === undefined ? ` with ${variables.join(' and ')} unset` : ''
  const command = commandLine(`channel delete ${name}`)
  throw StaticError.of(
    'not_found',
    `${missing} If it is gone with its machine, delete the channel by the key of your account: \`${command}\`${unset}.`,
  )
}

/** Deletes a channel of the account without an agent. */
async function deleteByKey(name: string, flags: Flags): Promise<void> {
  const account = accountOf(flags)
  const apiKey = keyOf(account)
  const relay = await relayOf(account, flags.relay)
  const { deleteAccountChannel } = await import('@static/sdk')
  const { grpcPort, traffic } = flags
  const deleting = deleteAccountChannel(name, {
    ...relay,
    apiKey,
    apiUrl: account.apiUrl,
    ...(account.givenCa === undefined ? {} : { ca: account.givenCa }),
    ...(grpcPort === undefined ? {} : { grpcPort }),
    ...(traffic === undefined ? {} : { traffic }),
  })
  try {
    await untilInterrupted(withProgress(DOING, deleting))
  } catch (error) {
    if (!(error instanceof StaticError) || error.code !== 'not_found') throw error
    const mode = apiKey.startsWith('sk_test_') ? ' test' : ''
    throw StaticError.of('not_found', `Your account owns no${mode} channel ${name} at ${relay.endpoint}.`, {
      cause: error,
    })
  }
}
