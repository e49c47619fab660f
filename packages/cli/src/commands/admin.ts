/** `static admin`: what the operator does to accounts, straight in the database. */
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
    .description('change accounts; needs access to the database')
    .addCommand(
      addFlags(new Command('plan'))
        .description('put an account on a plan')
        .addArgument(account())
        .addArgument(new Argument('<plan>', 'the plan').choices(PLANS))
        .addHelpText('after', examples('static admin plan 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 team'))
        .action((id: string, plan: Plan, flags: AdminFlags) =>
          change(id, flags, `put on the plan ${plan}`, (admin) => admin.setPlan(id, plan)),
        ),
    )
    .addCommand(
      addFlags(new Command('suspend'))
        .description('refuse every key and session of an account from now on')
        .addArgument(account())
        .addHelpText('after', examples('static admin suspend 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'))
        .action((id: string, flags: AdminFlags) =>
          change(id, flags, 'suspended', (admin) => admin.setSuspended(id, true)),
        ),
    )
    .addCommand(
      addFlags(new Command('resume'))
        .description('let a suspended account go on')
        .addArgument(account())
        .addHelpText('after', examples('static admin resume 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4 --yes'))
        .action((id: string, flags: AdminFlags) =>
          change(id, flags, 'resumed', (admin) => admin.setSuspended(id, false)),
        ),
    )
    .addCommand(
      new Command('migrate')
        .description('bring the tables of the database up to date; servers do it too when they start')
        .option('--data-dir <dir>', 'data directory of `static up`', defaultDataDirectory())
        .option('--database <url>', 'postgres://… or a SQLite file; better in STATIC_DATABASE')
        .option('--json', 'print JSON')
        .addHelpText('after', examples('static admin migrate', 'STATIC_DATABASE=postgres://… static admin migrate'))
        .action(async (flags: AdminFlags) => {
          await (await open(flags)).close()
          process.stdout.write(flags.json ? '{"migrated":true}\n' : 'The database is up to date.\n')
        }),
    )
    .addCommand(
      new Command('proxy-certificate')
        .description('make the client certificate by which the relay knows a stand-alone proxy')
        .addArgument(new Argument('<directory>', 'where client.pem and client.key are written'))
        .option('--data-dir <dir>', 'data directory of `static up`, whose authority signs', defaultDataDirectory())
        .option('--json', 'print JSON')
        .addHelpText('after', examples('static admin proxy-certificate ./proxy'))
        .action(proxyCertificate),
    )
}

async function proxyCertificate(directory: string, { dataDir, json }: AdminFlags): Promise<void> {
  if (!existsSync(join(dataDir, 'ca.pem'))) {
    throw StaticError.of(
      'not_found',
      `There is no authority in ${dataDir}: run \`static up\` first, or give --data-dir.`,
    )
  }
  const authority = await openAuthority({ directory: dataDir, names: [] })
  const { cert, key } = await authority.issueClient()
  ensurePrivateDirectory(directory)
  const files = { cert: join(directory, 'client.pem'), key: join(directory, 'client.key') }
  replaceFile(files.key, key, 0o600)
  replaceFile(files.cert, cert, 0o644)
  process.stdout.write(json ? `${JSON.stringify(files)}\n` : `Made ${files.cert} and ${files.key}.\n`)
}

function addFlags(command: Command): Command {
  return command
    .option('--data-dir <dir>', 'data directory of `static up`', defaultDataDirectory())
    .option('--database <url>', 'postgres://… or a SQLite file; better in STATIC_DATABASE')
    .option('--yes', 'do not ask')
    .option('--json', 'print the account as JSON')
}

/** Shows whose account it is, asks, and makes the change. */
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
    if (!flags.yes) await confirm(`${describe(account)}\nThis account will be ${done}. Go on?`)
    await apply(admin)
    const changed = await admin.inspect(id)
    process.stdout.write(flags.json ? `${JSON.stringify(changed)}\n` : `${describe(changed)}\n`)
  } finally {
    await store.close()
  }
}

/** Opens the database that the flags mean; never makes a new file. */
async function open(flags: AdminFlags): ReturnType<typeof openStoreType> {
  const database = databaseOf(flags.database) ?? join(flags.dataDir, 'api.sqlite')
  if (!/^postgres(ql)?:/.test(database) && !existsSync(database)) {
    throw StaticError.of('not_found', `There is no database ${database}: say where with --data-dir or --database.`)
  }
  const { openStore } = await import('@static/api')
  return openStore(database)
}

function describe({ id, email, name, plan, status }: Account): string {
  return printable(`${id}  ${email}${name === null ? '' : ` (${name})`}  plan ${plan}, ${status}`)
}
