/** `static signup`: creates an account and saves its first API key in the per-user file. */
import { Command } from 'commander'
import { type SignedUp, StaticError } from '@static/protocol'
import { type AccountSettings, readCredentials } from '@static/sdk/account'
import { accountOf, addApiFlags } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import {
  addPersonFlags,
  emailOf,
  isPasswordTyped,
  newPasswordOf,
  type PersonFlags,
  relayToSave,
  saveCredentials,
} from '../account/credentials.ts'
import { examples } from '../terminal/examples.ts'
import { printable, note, print, printJson, commandLine } from '../terminal/output.ts'

interface Flags extends PersonFlags {
  readonly name?: string
  readonly invite?: string
}

export function signupCommand(): Command {
  return addApiFlags(
    addPersonFlags(new Command('signup'))
      .option('--name <name>', 'name of the account')
      .option('--invite <invite>', 'one-time sign-up invite, if the operator requires one'),
  )
    .addHelpText(
      'after',
      examples(
        'static signup',
        'static signup --email you@example.com --password-file ./password',
        'static signup --api-url https://api.example.com --relay quic://relay.example.com:4433',
        'static signup --invite su_…',
      ),
    )
    .action(signup)
}

async function signup(flags: Flags): Promise<void> {
  const account = accountOf(flags)
  refuseToOverwrite(account)
  // Before the password is typed, in case the server cannot be reached.
  const relay = await relayToSave(account, flags)
  const { api_key: made, message: _message, ...person } = await create(account, flags)
  saveCredentials(account, made.key, relay)
  const { credentials } = account.places
  if (flags.json) return printJson({ ...person, key_prefix: made.key_prefix, credentials })
  print(`Signed up ${printable(person.email)}; saved API key ${printable(made.key_prefix)}… in ${credentials}.`)
  note(`next: \`${commandLine('channel create acme/support/routing')}\`, or \`${commandLine('whoami')}\`.`)
}

/** Creates the account. A field that was typed and is refused is asked for again, alone. */
async function create(account: AccountSettings, flags: Flags): Promise<SignedUp> {
  const { name, invite } = flags
  const more = {
    ...(name === undefined ? {} : { name }),
    ...(invite === undefined ? {} : { invite: inviteOf(invite) }),
  }
  let email = await emailOf(flags)
  let password = await newPasswordOf(flags)
  for (;;) {
    try {
      const request = { method: 'POST', path: '/v1/accounts', doing: 'Signing up' } as const
      return (await requestApi<SignedUp>(account, { ...request, body: { email, password, ...more } })).body
    } catch (error) {
      const field = wrongField(error)
      const isTyped = field === 'email' ? flags.email === undefined : field === 'password' && isPasswordTyped(flags)
      if (!isTyped) throw error
      note(StaticError.from(error).message)
      if (field === 'email') email = await emailOf(flags)
      else password = await newPasswordOf(flags)
    }
  }
}

/** The field that the API refuses. */
function wrongField(error: unknown): string | undefined {
  const { code, details } = StaticError.from(error)
  return code === 'email_taken' ? 'email' : details.errors?.[0]?.field
}

/** Also accepts the whole link. It is used once, right now, so the process list reveals nothing lasting. */
function inviteOf(text: string): string {
  return text.replace(/^.*#\/sign-up\//, '')
}

/** The saved key cannot be shown again, so another sign-up must not overwrite it. */
function refuseToOverwrite({ places }: AccountSettings): void {
  if (readCredentials(places.credentials).api_key === undefined) return
  throw StaticError.of(
    'invalid_request',
    `You are already signed in (${places.credentials}). To keep both accounts, sign up with --account and a new name. Otherwise run \`${commandLine('logout')}\` first.`,
  )
}
