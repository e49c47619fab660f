/** `static keys`: the API keys of the account. */
import { Argument, Command, Option } from 'commander'
import { type CreatedKey, type ListedKey, type Mode, MODES } from '@static/protocol'
import { type AccountSettings, readCredentials } from '@static/sdk/account'
import { accountOf, addAccountFlags, type AccountFlags, keyOf } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { confirm } from '../terminal/ask.ts'
import { examples } from '../terminal/examples.ts'
import { printable, note, print, printJson, shortTime, table, commandLine } from '../terminal/output.ts'

interface CreateFlags extends AccountFlags {
  readonly name?: string
  readonly mode?: Mode
}

interface RevokeFlags extends AccountFlags {
  readonly yes?: boolean
}

export function keysCommand(): Command {
  return new Command('keys')
    .description('list, create and revoke API keys')
    .addCommand(
      addAccountFlags(new Command('list').description('list the active keys, the newest first'))
        .addHelpText('after', examples('static keys list'))
        .action(list),
    )
    .addCommand(
      addAccountFlags(
        new Command('create')
          .description('make a key and print it: it is shown only this once')
          .option('--name <name>', 'what the key is called', 'default')
          .addOption(new Option('--mode <mode>', 'live or test (default: as the key in use)').choices(MODES)),
      )
        .addHelpText(
          'after',
          examples('static keys create --name ci --mode test', '(umask 077; static keys create > ./key)'),
        )
        .action(create),
    )
    .addCommand(
      addAccountFlags(
        new Command('revoke')
          .description('end a key, at once and for good')
          .addArgument(new Argument('<id>', 'the id of the key, as `static keys list` shows it'))
          .option('--yes', 'do not ask'),
      )
        .addHelpText('after', examples('static keys revoke 01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'))
        .action(revoke),
    )
    .addHelpText('after', examples('static keys list', 'static keys create --name ci', 'static keys revoke ID'))
}

async function listed(account: AccountSettings): Promise<readonly ListedKey[]> {
  const { body } = await requestApi<{ keys: readonly ListedKey[] }>(account, {
    method: 'GET',
    path: '/v1/keys',
    apiKey: keyOf(account),
    doing: 'Asking for the keys',
  })
  return body.keys
}

async function list(flags: AccountFlags): Promise<void> {
  const account = accountOf(flags)
  const keys = await listed(account)
  if (flags.json) return printJson({ keys })
  const own = keyOf(account)
  const rows = keys.map(({ id, key_prefix: prefix, name, mode, last_used_at: used, created_at: made }) => [
    id,
    `${prefix}…`,
    mode,
    shortTime(made),
    shortTime(used),
    own.startsWith(prefix) ? `${name} (this one)` : name,
  ])
  print(table(['ID', 'KEY', 'MODE', 'CREATED', 'LAST USED', 'NAME'], rows))
}

async function create({ name, mode, ...flags }: CreateFlags): Promise<void> {
  const account = accountOf(flags)
  const { body } = await requestApi<CreatedKey>(account, {
    method: 'POST',
    path: '/v1/keys',
    apiKey: keyOf(account),
    body: { name, ...(mode === undefined ? {} : { mode }) },
    doing: 'Making a key',
  })
  if (flags.json) return printJson(body)
  print(printable(body.key))
  note(`this ${body.mode} key is shown only now; \`${commandLine(`keys revoke ${body.id}`)}\` ends it.`)
}

async function revoke(id: string, flags: RevokeFlags): Promise<void> {
  const account = accountOf(flags)
  const apiKey = keyOf(account)
  if (!flags.yes) await confirm(`The key ${id} will stop working everywhere, for good. Go on?`)
  // Who revokes the key in use is signed out by it, and should hear so.
  const own = (await listed(account)).some((key) => key.id === id && apiKey.startsWith(key.key_prefix))
  await requestApi(account, {
    method: 'DELETE',
    path: `/v1/keys/${encodeURIComponent(id)}`,
    apiKey,
    doing: 'Revoking the key',
  })
  if (flags.json) printJson({ id, revoked: true })
  else print(`The key ${id} is revoked.`)
  if (!own) return
  const saved = readCredentials(account.places.credentials).api_key === apiKey
  note(
    `that was the key in use: ${saved ? `\`${commandLine('login')}\` makes another` : 'set another in STATIC_API_KEY'}.`,
  )
}
