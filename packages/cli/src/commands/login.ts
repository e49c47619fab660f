/** `static login`: a key for this machine, by e-mail and password or one that exists. */
import { hostname } from 'node:os'
import { Command } from 'commander'
import { type Account, type CreatedKey, CSRF_HEADER, StaticError } from '@static/protocol'
import { type AccountSettings, checkApiKey } from '@static/sdk/account'
import { accountOf, addApiFlags } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { addPersonFlags, emailOf, passwordOf, type PersonFlags, saveCredentials } from '../account/credentials.ts'
import { examples } from '../terminal/examples.ts'
import { printable, note, print, printJson } from '../terminal/output.ts'
import { secretOf } from '../terminal/secrets.ts'

interface Flags extends PersonFlags {
  readonly withKey?: boolean
}

interface SignedIn {
  readonly person: Account
  readonly key: string
}

export function loginCommand(): Command {
  return addApiFlags(
    addPersonFlags(new Command('login'))
      .description('make a new API key with e-mail and password, and keep it on this machine')
      .option('--with-key', 'keep a key that you have, read from a hidden prompt or from stdin'),
  )
    .addHelpText(
      'after',
      examples(
        'static login',
        'static login --email you@example.com --password-stdin < password',
        'static login --with-key < key',
      ),
    )
    .action(login)
}

async function login(flags: Flags): Promise<void> {
  const account = accountOf(flags)
  const { person, key } = flags.withKey ? await byKey(account) : await byPassword(account, flags)
  saveCredentials(account, key, flags)
  const { credentials } = account.places
  const prefix = key.slice(0, 16)
  if (flags.json) return printJson({ ...person, key_prefix: prefix, credentials })
  print(`Signed in as ${printable(person.email)}; the API key ${prefix}… is saved in ${credentials}.`)
  if (process.env['STATIC_API_KEY']) note('STATIC_API_KEY is set and counts before the saved key.')
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

/** Signs in, makes a key, and signs out: the session lives no longer than that. */
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
  if (cookie === undefined) throw StaticError.of('unavailable', 'The API answers without a session.')
  const headers = { cookie, [CSRF_HEADER]: '1', origin: new URL(account.apiUrl).origin }
  try {
    const { body } = await requestApi<CreatedKey>(account, {
      method: 'POST',
      path: '/v1/keys',
      headers,
      body: { name: `cli on ${hostname()}`.slice(0, 64) },
      doing: 'Making a key',
    })
    return { person, key: body.key }
  } catch (error) {
    throw error instanceof StaticError && error.code === 'auth_failed' ? otherAddress(account, error) : error
  } finally {
    // If that fails, it ends by itself.
    await requestApi(account, { method: 'DELETE', path: '/v1/sessions/current', headers, doing: 'Signing out' }).catch(
      () => {},
    )
  }
}

/** A session is bound to the address that the server calls its own. */
function otherAddress({ apiUrl }: AccountSettings, cause: StaticError): StaticError {
  return StaticError.of(
    'auth_failed',
    `The API takes sessions only by its own address, which is not ${apiUrl}: give that with --api-url.`,
    { cause },
  )
}
