/** Who signs up or in, and the per-user file that remembers it. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { type AccountSettings, checkApiKey, parseEndpoint, writeCredentials } from '@static/sdk/account'
import { type ApiFlags, defaultRelay } from './account.ts'
import { askLine, askSecret, canAsk } from '../terminal/ask.ts'
import { secretOf, type SecretSource } from '../terminal/secrets.ts'

/** Flags of a person who signs up or in. */
export interface PersonFlags extends ApiFlags {
  readonly email?: string
  readonly password?: string
  readonly passwordStdin?: boolean
  readonly passwordFile?: string
  readonly relay?: string
}

/** Adds the flags to a command. */
export function addPersonFlags(command: Command): Command {
  return command
    .option('--email <address>', 'e-mail address; asked for if missing')
    .option('--password-stdin', 'read the password from stdin; on a terminal it is asked for, hidden')
    .option('--password-file <file>', 'read the password from a file')
    .option('--password <password>', 'the password itself, where others can see it: better one of the above')
    .option('--relay <url>', 'relay to save for channels, quic://host:4433 (default: on the host of the API)')
}

/** The e-mail address, asked for if need be. */
export async function emailOf({ email }: PersonFlags): Promise<string> {
  if (email !== undefined) return email
  if (!canAsk())
    throw StaticError.of('invalid_request', 'Nobody can be asked for the e-mail address here: add --email.')
  return await askLine('E-mail:')
}

/** The password. */
export async function passwordOf(flags: PersonFlags): Promise<string> {
  return await secretOf(sourceOf(flags))
}

/** A password that is chosen now: asked for twice, because nobody sees what is typed. */
export async function newPasswordOf(flags: PersonFlags): Promise<string> {
  const password = await passwordOf(flags)
  const typed = !flags.passwordStdin && flags.passwordFile === undefined && flags.password === undefined
  if (typed && (await askSecret('Password again:')) !== password) {
    throw StaticError.of('invalid_request', 'The two passwords differ: nothing was done.')
  }
  return password
}

/** Keeps a key, and where it belongs, for the next commands and for the SDK. */
export function saveCredentials(
  { apiUrl, givenCa, relay, places }: AccountSettings,
  key: string,
  flags: PersonFlags,
): void {
  const chosen = flags.relay ?? relay ?? defaultRelay(apiUrl)
  parseEndpoint(chosen)
  // What no command takes must not be kept: with it nobody could sign in or out again.
  checkApiKey(key)
  const ca = givenCa === undefined || givenCa.includes('-----BEGIN ') ? givenCa : resolve(givenCa)
  try {
    writeCredentials(places.credentials, {
      api_key: key,
      api_url: apiUrl,
      relay: chosen,
      ...(ca === undefined ? {} : { ca }),
    })
  } catch (error) {
    const { message } = StaticError.from(error)
    throw StaticError.of('invalid_request', `The account is fine, but ${message} Mend that, then \`static login\`.`, {
      cause: error,
    })
  }
}

function sourceOf({ password, passwordStdin, passwordFile }: PersonFlags): SecretSource {
  return {
    what: 'password',
    argument: password,
    file: passwordFile,
    stdin: passwordStdin,
    instead: '--password-stdin or --password-file',
    askOnly: true,
  }
}
