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
    .addCommand(
      addAccountFlags(new Command('list').description('list active keys, newest first'))
        .addHelpText('after', examples('static keys list'))
        .action(list),
    )
    .addCommand(
      addAccountFlags(
        new Command('create')
          .description('create a key and print it; it is shown only once')
          .option('--name <name>', 'name of the key', 'default')
          .addOption(new Option('--mode <mode>', 'live or test (default: the mode of the current key)').choices(MODES)),
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
          .description('revoke a key immediately and permanently')
          .addArgument(new Argument('<id>', 'key id, from `static keys list`'))
          .option('--yes', 'skip the confirmation prompt'),
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
    doing: 'Fetching keys',
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
    own.startsWith(prefix) ? `${name} (current)` : name,
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
    doing: 'Creating a key',
  })
  if (flags.json) return printJson(body)
  print(printable(body.key))
  note(
    `save this ${body.mode} key now, it is not shown again; revoke it with \`${commandLine(`keys revoke ${body.id}`)}\`.`,
  )
}

async function revoke(id: string, flags: RevokeFlags): Promise<void> {
  const account = accountOf(flags)
  const apiKey = keyOf(account)
  if (!flags.yes) await confirm(`Key ${id} will stop working everywhere, permanently. Continue?`)
  // Revoking the current key signs this machine out, so warn about it afterwards.
  const own = (await listed(account)).some((key) => key.id === id && apiKey.startsWith(key.key_prefix))
  await requestApi(account, {
    method: 'DELETE',
    path: `/v1/keys/${encodeURIComponent(id)}`,
    apiKey,
    doing: 'Revoking the key',
  })
  if (flags.json) printJson({ id, revoked: true })
  else print(`Revoked key ${id}.`)
  if (!own) return
  const saved = readCredentials(account.places.credentials).api_key === apiKey
  note(
    `that was your current key; ${saved ? `run \`${commandLine('login')}\` to get a new one` : 'set another one in STATIC_API_KEY'}.`,
  )
}
