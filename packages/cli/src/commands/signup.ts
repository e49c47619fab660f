/** `static signup`: an account, its first key, and the per-user file that keeps it. */
import { Command } from 'commander'
import { type SignedUp, StaticError } from '@static/protocol'
import { type AccountSettings, readCredentials } from '@static/sdk/account'
import { accountOf, addApiFlags } from '../account/account.ts'
import { requestApi } from '../account/api-request.ts'
import { addPersonFlags, emailOf, newPasswordOf, type PersonFlags, saveCredentials } from '../account/credentials.ts'
import { examples } from '../terminal/examples.ts'
import { printable, note, print, printJson, commandLine } from '../terminal/output.ts'

interface Flags extends PersonFlags {
  readonly name?: string
}

export function signupCommand(): Command {
  return addApiFlags(
    addPersonFlags(new Command('signup'))
      .description('make an account and keep its first API key on this machine')
      .option('--name <name>', 'what the account is called'),
  )
    .addHelpText(
      'after',
      examples(
        'static signup',
        'static signup --email you@example.com --password-file ./password',
        'static signup --api-url https://api.example.com --relay quic://relay.example.com:4433',
      ),
    )
    .action(signup)
}

async function signup(flags: Flags): Promise<void> {
  const account = accountOf(flags)
  refuseToForget(account)
  const email = await emailOf(flags)
  const password = await newPasswordOf(flags)
  const { body } = await requestApi<SignedUp>(account, {
    method: 'POST',
    path: '/v1/accounts',
    body: { email, password, ...(flags.name === undefined ? {} : { name: flags.name }) },
    doing: 'Signing up',
  })
  const { api_key: made, message: _message, ...person } = body
  saveCredentials(account, made.key, flags)
  const { credentials } = account.places
  if (flags.json) return printJson({ ...person, key_prefix: made.key_prefix, credentials })
  print(`Signed up ${printable(person.email)}; the API key ${printable(made.key_prefix)}… is saved in ${credentials}.`)
  note(`next: \`${commandLine('channel create acme/support/routing')}\`, or \`${commandLine('whoami')}\`.`)
}

/** The key in the file was shown once: another sign-up must not overwrite it. */
function refuseToForget({ places }: AccountSettings): void {
  if (readCredentials(places.credentials).api_key === undefined) return
  throw StaticError.of(
    'invalid_request',
    `You are signed in already (${places.credentials}): run \`${commandLine('logout')}\` before you sign up again.`,
  )
}
