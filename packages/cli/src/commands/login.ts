/** `static login`: saves an API key on this machine, a new one (e-mail and password) or an existing one. */
import { Command, Option } from 'commander'
import { type Account, type CreatedKey, CSRF_HEADER, StaticError } from '@static/protocol'
import { type AccountSettings, checkApiKey } from '@static/sdk/account'
import { accountOf, addApiFlags } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import {
  addPersonFlags,
  emailOf,
  passwordOf,
  type PersonFlags,
  relayToSave,
  saveCredentials,
} from '../account/credentials.ts'
import { examples } from '../terminal/examples.ts'
import { printable, note, print, printJson } from '../terminal/output.ts'
import { secretOf } from '../terminal/secrets.ts'

interface Flags extends PersonFlags {
  readonly withKey?: boolean
  readonly keyName: string
}

interface SignedIn {
  readonly person: Account
  readonly key: string
}

export function loginCommand(): Command {
  return addApiFlags(
    addPersonFlags(new Command('login'))
      .option('--with-key', 'save an existing key, read from a hidden prompt or from stdin')
      // Names of machines and people stay here, unless the user wants them in the list of keys.
      .addOption(new Option('--key-name <name>', 'name of the new key').default('cli').conflicts('withKey')),
  )
    .addHelpText(
      'after',
      examples(
        'static login',
        'static login --key-name laptop',
        'static login --email you@example.com --password-stdin < password',
        'static login --with-key < key',
      ),
    )
    .action(login)
}

async function login(flags: Flags): Promise<void> {
  const account = accountOf(flags)
  const relay = await relayToSave(account, flags)
  const { person, key } = flags.withKey ? await byKey(account) : await byPassword(account, flags)
  saveCredentials(account, key, relay)
  const { credentials } = account.places
  const prefix = key.slice(0, 16)
  if (flags.json) return printJson({ ...person, key_prefix: prefix, credentials })
  print(`Signed in as ${printable(person.email)}; saved API key ${printable(prefix)}… in ${credentials}.`)
  if (process.env['STATIC_API_KEY']) note('STATIC_API_KEY is set and overrides the saved key.')
}

async function byKey(account: AccountSettings): Promise<SignedIn> {
  const key = await secretOf({ what: 'API key', instead: 'stdin' })
  checkApiKey(key)
  const { body } = await requestApi<Account>(account, {
    method: 'GET',
    path: '/v1/accounts/me',
    apiKey: key,
    doing: 'Checking the key',
  })
  return { person: body, key }
}

/** Signs in, creates a key and signs out, so that no session stays open. */
async function byPassword(account: AccountSettings, flags: Flags): Promise<SignedIn> {
  const email = await emailOf(flags)
  const password = await passwordOf(flags)
  const { body: person, cookies } = await requestApi<Account>(account, {
    method: 'POST',
    path: '/v1/sessions',
    body: { email, password },
    doing: 'Signing in',
  })
  const cookie = cookies[0]?.split(';')[0]
  if (cookie === undefined)
    throw StaticError.of(
      'unavailable',
      `The API at ${account.apiUrl} returned no session cookie. Check that --api-url is a Static API.`,
    )
  const headers = { cookie, [CSRF_HEADER]: '1', origin: new URL(account.apiUrl).origin }
  try {
    const { body } = await requestApi<CreatedKey>(account, {
      method: 'POST',
      path: '/v1/keys',
      headers,
      body: { name: flags.keyName },
      doing: 'Creating a key',
    })
    return { person, key: body.key }
  } catch (error) {
    throw error instanceof StaticError && error.code === 'auth_failed' ? otherAddress(account, error) : error
  } finally {
    // A session that could not be closed expires on its own.
    await requestApi(account, { method: 'DELETE', path: '/v1/sessions/current', headers, doing: 'Signing out' }).catch(
      () => {},
    )
  }
}

/** The API accepts a session only at its own public address. */
function otherAddress({ apiUrl }: AccountSettings, cause: StaticError): StaticError {
  return StaticError.of(
    'auth_failed',
    `The API does not accept sessions at ${apiUrl}, which is not its public URL. Pass its public URL with --api-url.`,
    { cause },
  )
}
