/** `static admin`: administration of accounts and their channels, directly in the database, of backups, databases and certificates. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Argument, Command } from 'commander'
import { replaceFile } from '@static/node/files'
import { PLANS, type Plan, StaticError } from '@static/protocol'
import { openAuthority } from '../authority.ts'
import { defaultDataDirectory, ensurePrivateDirectory } from '../server/data-dir.ts'
import { examples } from '../terminal/examples.ts'
import { accountsCommand } from './admin/accounts.ts'
import { auditCommand } from './admin/audit.ts'
import { backupCommand, restoreCommand } from './admin/backup.ts'
import { copyCommand } from './admin/copy.ts'
import { deleteChannelCommand } from './admin/delete-channel.ts'
import { accountArgument, addYesFlag, changeAccount, type ChangeFlags } from './admin/change.ts'
import { addDatabaseFlags, type DatabaseFlags, openDatabase } from './admin/database.ts'

export function adminCommand(): Command {
  return new Command('admin')
    .addCommand(accountsCommand())
    .addCommand(auditCommand())
    .addCommand(backupCommand())
    .addCommand(restoreCommand())
    .addCommand(copyCommand())
    .addCommand(
      addYesFlag(addDatabaseFlags(new Command('plan')))
        .description('change the plan of an account')
        .addArgument(accountArgument())
        .addArgument(new Argument('<plan>', 'new plan').choices(PLANS))
        .addHelpText('after', examples('static admin plan 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 team'))
        .action((id: string, plan: Plan, flags: ChangeFlags) =>
          changeAccount(id, flags, `moved to the ${plan} plan`, (admin) => admin.setPlan(id, plan)),
        ),
    )
    .addCommand(
      addYesFlag(addDatabaseFlags(new Command('suspend')))
        .description('suspend an account: its keys, sessions and connected agents stop working within seconds')
        .addArgument(accountArgument())
        .addHelpText('after', examples('static admin suspend 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'))
        .action((id: string, flags: ChangeFlags) =>
          changeAccount(id, flags, 'suspended', (admin) => admin.setSuspended(id, true)),
        ),
    )
    .addCommand(
      addYesFlag(addDatabaseFlags(new Command('resume')))
        .description('reactivate a suspended account')
        .addArgument(accountArgument())
        .addHelpText('after', examples('static admin resume 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 --yes'))
        .action((id: string, flags: ChangeFlags) =>
          changeAccount(id, flags, 'resumed', (admin) => admin.setSuspended(id, false)),
        ),
    )
    .addCommand(deleteChannelCommand())
    .addCommand(
      addDatabaseFlags(new Command('migrate'))
        .description('migrate the database to the current schema; servers also do this when they start')
        .addHelpText('after', examples('static admin migrate', 'STATIC_DATABASE=postgres://… static admin migrate'))
        .action(async (flags: DatabaseFlags) => {
          await (await openDatabase(flags)).close()
          process.stdout.write(flags.json ? '{"migrated":true}\n' : 'The database is up to date.\n')
        }),
    )
    .addCommand(
      new Command('proxy-certificate')
        .description('issue the client certificate that a stand-alone proxy presents to the relay')
        .addArgument(new Argument('<directory>', 'where to write client.pem and client.key'))
        .option(
          '--data-dir <dir>',
          'data directory of `static up`, whose CA signs the certificate',
          defaultDataDirectory(),
        )
        .option('--json', 'print JSON')
        .addHelpText('after', examples('static admin proxy-certificate ./proxy'))
        .action(proxyCertificate),
    )
}

async function proxyCertificate(directory: string, { dataDir, json }: DatabaseFlags): Promise<void> {
  if (!existsSync(join(dataDir, 'ca.pem'))) {
    throw StaticError.of(
      'not_found',
      `No certificate authority found in ${dataDir}. Run \`static up\` first, or pass --data-dir.`,
    )
  }
  const authority = await openAuthority({ directory: dataDir, names: [] })
  const { cert, key } = await authority.issueClient()
  ensurePrivateDirectory(directory)
  const files = { cert: join(directory, 'client.pem'), key: join(directory, 'client.key') }
  replaceFile(files.key, key, 0o600)
  replaceFile(files.cert, cert, 0o644)
  process.stdout.write(json ? `${JSON.stringify(files)}\n` : `Wrote ${files.cert} and ${files.key}.\n`)
}
