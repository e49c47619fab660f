/** `static admin delete-channel`: queues the deletion of a channel whose owner is gone, for the relay. */
import { Command, Option } from 'commander'
import { type Mode, MODES } from '@static/protocol'
import { confirmByName } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, shortTime } from '../../terminal/output.ts'
import { channelArgument } from '../channel/arguments.ts'
import { accountArgument, addYesFlag, type ChangeFlags, describe } from './change.ts'
import { addDatabaseFlags, withAdmin } from './database.ts'

interface Flags extends ChangeFlags {
  readonly mode: Mode
}

export function deleteChannelCommand(): Command {
  return addYesFlag(addDatabaseFlags(new Command('delete-channel')))
    .description('delete a channel of an account for all its members, when its relay next asks the API')
    .addArgument(accountArgument())
    .addArgument(channelArgument())
    .addOption(new Option('--mode <mode>', 'mode of the key that created it').choices(MODES).default('live'))
    .addHelpText(
      'after',
      `
Relays ask every few seconds. A request that no relay has carried out after a day is dropped. The audit log has both the
request and the deletion.
${examples('static admin delete-channel 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 acme/support/routing')}`,
    )
    .action(deleteChannel)
}

async function deleteChannel(id: string, name: string, flags: Flags): Promise<void> {
  const { mode } = flags
  const queued = await withAdmin(flags, async ({ admin }) => {
    const account = await admin.inspect(id)
    if (!flags.yes) {
      const which = mode === 'test' ? `The test channel ${name}` : name
      await confirmByName(`${describe(account)}\n${which} will be deleted for all its members, permanently.`, name)
    }
    return await admin.deleteChannel(id, { name, mode, channelId: null })
  })
  if (flags.json) return printJson(queued)
  print(`Queued the deletion of ${name}.`)
  note(
    `its relay deletes it within seconds, if the account has it; until ${shortTime(queued.expires_at)} at the latest. See \`static admin audit --account ${id}\`.`,
  )
}
