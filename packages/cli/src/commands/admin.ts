/** `static admin`: account administration, directly in the database. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Argument, Command } from 'commander'
import type { Admin, openStore as openStoreType } from '@static/api'
import { replaceFile } from '@static/node/files'
import { type Account, PLANS, type Plan, StaticError } from '@static/protocol'
import { confirm } from '../terminal/ask.ts'
import { openAuthority } from '../authority.ts'
import { defaultDataDirectory, ensurePrivateDirectory } from '../server/data-dir.ts'
import { databaseOf } from '../server/database.ts'
import { examples } from '../terminal/examples.ts'
import { printable } from '../terminal/output.ts'

interface AdminFlags {
  readonly dataDir: string
  readonly database?: string
  readonly yes?: boolean
  readonly json?: boolean
}

export function adminCommand(): Command {
  const account = (): Argument => new Argument('<account>', 'account id (e-mail addresses are not verified)')
  return new Command('admin')
    .addCommand(
      addFlags(new Command('plan'))
        .description('change the plan of an account')
        .addArgument(account())
        .addArgument(new Argument('<plan>', 'new plan').choices(PLANS))
        .addHelpText('after', examples('static admin plan 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 team'))
        .action((id: string, plan: Plan, flags: AdminFlags) =>
          change(id, flags, `moved to the ${plan} plan`, (admin) => admin.setPlan(id, plan)),
        ),
    )
    .addCommand(
      addFlags(new Command('suspend'))
        .description('suspend an account: its keys and sessions stop working')
        .addArgument(account())
        .addHelpText('after', examples('static admin suspend 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'))
        .action((id: string, flags: AdminFlags) =>
          change(id, flags, 'suspended', (admin) => admin.setSuspended(id, true)),
        ),
    )
    .addCommand(
      addFlags(new Command('resume'))
        .description('reactivate a suspended account')
        .addArgument(account())
        .addHelpText('after', examples('static admin resume 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 --yes'))
        .action((id: string, flags: AdminFlags) =>
          change(id, flags, 'resumed', (admin) => admin.setSuspended(id, false)),
        ),
    )
    .addCommand(
      new Command('migrate')
        .description('migrate the database to the current schema; servers also do this when they start')
        .option('--data-dir <dir>', 'data directory of `static up`', defaultDataDirectory())
        .option('--database <url>', 'postgres://… or a SQLite file; prefer STATIC_DATABASE')
        .option('--json', 'print JSON')
        .addHelpText('after', examples('static admin migrate', 'STATIC_DATABASE=postgres://… static admin migrate'))
        .action(async (flags: AdminFlags) => {
          await (await open(flags)).close()
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

async function proxyCertificate(directory: string, { dataDir, json }: AdminFlags): Promise<void> {
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

function addFlags(command: Command): Command {
  return command
    .option('--data-dir <dir>', 'data directory of `static up`', defaultDataDirectory())
    .option('--database <url>', 'postgres://… or a SQLite file; prefer STATIC_DATABASE')
    .option('--yes', 'skip the confirmation prompt')
    .option('--json', 'print the account as JSON')
}

/** Shows the account, asks for confirmation and applies the change. */
async function change(
  id: string,
  flags: AdminFlags,
  done: string,
  apply: (admin: Admin) => Promise<void>,
): Promise<void> {
  const { Admin: AdminRules } = await import('@static/api')
  const store = await open(flags)
  try {
    const admin = new AdminRules(store.accounts)
    const account = await admin.inspect(id)
    if (!flags.yes) await confirm(`${describe(account)}\nThis account will be ${done}. Continue?`)
    await apply(admin)
    const changed = await admin.inspect(id)
    process.stdout.write(flags.json ? `${JSON.stringify(changed)}\n` : `${describe(changed)}\n`)
  } finally {
    await store.close()
  }
}

/** Opens the database that the flags name; never creates a file. */
async function open(flags: AdminFlags): ReturnType<typeof openStoreType> {
  const database = databaseOf(flags.database) ?? join(flags.dataDir, 'api.sqlite')
  if (!/^postgres(ql)?:/.test(database) && !existsSync(database)) {
    throw StaticError.of('not_found', `Database ${database} does not exist. Pass --data-dir or --database.`)
  }
  const { openStore } = await import('@static/api')
  return openStore(database)
}

function describe({ id, email, name, plan, status }: Account): string {
  return printable(`${id}  ${email}${name === null ? '' : ` (${name})`}  plan ${plan}, ${status}`)
}
