/** E-mail and password for signing up or in, and the per-user file that stores the API key. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import {
  type AccountSettings,
  type AnnouncedRelay,
  announcedRelay,
  checkApiKey,
  parseEndpoint,
  readCredentials,
  writeCredentials,
} from '@static/sdk/account'
import type { ApiFlags } from './account.ts'
import { note } from '../terminal/output.ts'
import { askLine, askSecret, canAsk } from '../terminal/ask.ts'
import { secretOf, type SecretSource } from '../terminal/secrets.ts'

/** Flags of `signup` and `login`. */
export interface PersonFlags extends ApiFlags {
  readonly email?: string
  readonly password?: string
  readonly passwordStdin?: boolean
  readonly passwordFile?: string
  readonly relay?: string
}

export function addPersonFlags(command: Command): Command {
  return command
    .option('--email <address>', 'e-mail address (default: prompt)')
    .option('--password-stdin', 'read the password from stdin (default on a terminal: hidden prompt)')
    .option('--password-file <file>', 'read the password from a file')
    .option('--password <password>', 'the password, visible in the process list; prefer one of the above')
    .option('--relay <url>', 'relay to save, quic://host:4433 (default: the one that the API announces)')
}

/** The e-mail address from the flag or a prompt. */
export async function emailOf({ email }: PersonFlags): Promise<string> {
  if (email !== undefined) return email
  if (!canAsk())
    throw StaticError.of('invalid_request', 'Not a terminal, so I cannot ask for the e-mail address. Pass --email.')
  return await askLine('E-mail:')
}

/** The password from flags, stdin or a prompt. */
export async function passwordOf(flags: PersonFlags): Promise<string> {
  return await secretOf(sourceOf(flags))
}

/** A new password. On a terminal it is prompted for twice, because the input is hidden. */
export async function newPasswordOf(flags: PersonFlags): Promise<string> {
  const password = await passwordOf(flags)
  const typed = !flags.passwordStdin && flags.passwordFile === undefined && flags.password === undefined
  if (typed && (await askSecret('Password again:')) !== password) {
    throw StaticError.of('invalid_request', 'The two passwords do not match. Nothing was changed.')
  }
  return password
}

/**
 * The relay to save. The one of the flags, the environment or the file wins over the one that the API announces; if they
 * differ, the person learns it. A relay that was saved with another API is not that of this one.
 *
 * @throws {StaticError} `invalid_request` if an endpoint is invalid; see `announcedRelay`
 */
export async function relayToSave(
  account: AccountSettings,
  { relay }: PersonFlags,
): Promise<AnnouncedRelay | undefined> {
  const announced = await announcedRelay(account)
  const saved = readCredentials(account.places.credentials)
  const isOther = saved.api_url !== undefined && saved.api_url !== account.apiUrl
  const isSaved = relay === undefined && !process.env['STATIC_RELAY']
  const endpoint = isSaved && isOther ? undefined : (relay ?? account.relay)
  if (endpoint === undefined) {
    if (saved.relay !== undefined && announced !== undefined)
      note(`${account.apiUrl} announces the relay ${announced.endpoint}, which replaces ${saved.relay}.`)
    return announced
  }
  const ownName = (isSaved ? account.relayName : process.env['STATIC_RELAY_NAME']) || undefined
  // The name in the certificate matters only to a connection: here the address is compared.
  const { url } = parseEndpoint(endpoint, { relayName: ownName ?? announced?.relayName })
  if (announced !== undefined && announced.endpoint !== url)
    note(`${account.apiUrl} announces the relay ${announced.endpoint}; ${url} is used, as configured.`)
  const relayName = ownName ?? (announced?.endpoint === url ? announced.relayName : undefined)
  parseEndpoint(endpoint, { relayName })
  return { endpoint, ...(relayName === undefined ? {} : { relayName }) }
}

/** Saves the key with its API and relay, for later commands and for the SDK. */
export function saveCredentials(
  { apiUrl, givenCa, places }: AccountSettings,
  key: string,
  relay: AnnouncedRelay | undefined,
): void {
  // Never save a malformed key: every command, including login and logout, would then refuse the file.
  checkApiKey(key)
  const ca = givenCa === undefined || givenCa.includes('-----BEGIN ') ? givenCa : resolve(givenCa)
  try {
    writeCredentials(places.credentials, {
      api_key: key,
      api_url: apiUrl,
      ...(relay === undefined ? {} : { relay: relay.endpoint }),
      ...(relay?.relayName === undefined ? {} : { relay_name: relay.relayName }),
      ...(ca === undefined ? {} : { ca }),
    })
  } catch (error) {
    const { message } = StaticError.from(error)
    throw StaticError.of(
      'invalid_request',
      `You are signed in, but the API key was not saved: ${message} Fix that, then run \`static login\`.`,
      {
        cause: error,
      },
    )
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
