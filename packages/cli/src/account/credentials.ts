/** E-mail and password for signing up or in, and the per-user file that stores the API key. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import {
  type AccountSettings,
  type AnnouncedRelay,
  announcedRelay,
  type Credentials,
  checkApiKey,
  parseEndpoint,
  readCredentials,
  writeCredentials,
} from '@static/sdk/account'
import type { ApiFlags } from './account.ts'
import { commandLine, note } from '../terminal/output.ts'
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

/** As the API checks it. */
const EMAIL = /^[^\s@]+@[^\s@]+$/u

/** The e-mail address from the flag or a prompt, which is repeated until it can be one. */
export async function emailOf({ email }: PersonFlags): Promise<string> {
  if (email !== undefined) {
    if (EMAIL.test(email)) return email
    throw StaticError.of('invalid_request', notAnAddress(email))
  }
  if (!canAsk())
    throw StaticError.of('invalid_request', 'Not a terminal, so I cannot ask for the e-mail address. Pass --email.')
  for (;;) {
    const typed = await askLine('E-mail:')
    if (EMAIL.test(typed)) return typed
    note(notAnAddress(typed))
  }
}

function notAnAddress(text: string): string {
  return `${JSON.stringify(text)} is not an e-mail address, such as you@example.com.`
}

/** The password from flags, stdin or a prompt. */
export async function passwordOf(flags: PersonFlags): Promise<string> {
  return await secretOf(sourceOf(flags))
}

/** Whether the password is typed at a prompt. */
export function isPasswordTyped({ passwordStdin, passwordFile, password }: PersonFlags): boolean {
  return !passwordStdin && passwordFile === undefined && password === undefined
}

/** A new password. On a terminal it is prompted for twice, because the input is hidden, until both are the same. */
export async function newPasswordOf(flags: PersonFlags): Promise<string> {
  for (;;) {
    const password = await passwordOf(flags)
    if (!isPasswordTyped(flags) || (await askSecret('Password again:')) === password) return password
    note('the two passwords do not match.')
  }
}

/** The relay to save, and what the person should know about the choice. */
export interface RelayChoice {
  readonly relay?: AnnouncedRelay
  readonly note?: string
}

/** The sources for the relay to save. */
export interface RelaySources {
  /** From the flag, else from the environment. */
  readonly given: AnnouncedRelay | undefined
  readonly saved: Credentials
  readonly announced: AnnouncedRelay | undefined
}

/**
 * A given relay wins over the saved one, and that over the announced one; where they differ, the person learns it. A
 * relay that was saved with another API does not count.
 *
 * @throws {StaticError} `invalid_request` if an endpoint is invalid
 */
export function chooseRelay(apiUrl: string, { given, saved, announced }: RelaySources): RelayChoice {
  const isSavedHere = saved.api_url === undefined || saved.api_url === apiUrl
  const own = given ?? (isSavedHere ? savedRelay(saved) : undefined)
  if (own === undefined) {
    if (announced === undefined) return {}
    if (saved.relay === undefined) return { relay: announced }
    return {
      relay: announced,
      note: `${apiUrl} announces the relay ${announced.endpoint}, which replaces ${saved.relay} of ${saved.api_url}.`,
    }
  }
  // An address that the API announces as well has the name that it announces.
  const named = own.relayName ?? announced?.relayName
  const { url } = parseEndpoint(own.endpoint, { relayName: named })
  const name = named === undefined ? {} : { relayName: named }
  const relay = { ...own, ...name }
  if (announced?.endpoint === url) return { relay: { ...relay, ...announced, ...name, endpoint: own.endpoint } }
  if (announced === undefined) return { relay }
  return { relay, note: `${apiUrl} announces the relay ${announced.endpoint}; ${url} is used, as configured.` }
}

function savedRelay({ relay, relay_name: name, relay_grpc_port: port }: Credentials): AnnouncedRelay | undefined {
  if (relay === undefined) return undefined
  return {
    endpoint: relay,
    ...(name === undefined ? {} : { relayName: name }),
    ...(port === undefined ? {} : { grpcPort: Number(port) }),
  }
}

/**
 * The relay to save with an account; asks the API which one it announces.
 *
 * @throws {StaticError} see `chooseRelay` and `announcedRelay`
 */
export async function relayToSave(
  account: AccountSettings,
  { relay: flag }: PersonFlags,
): Promise<AnnouncedRelay | undefined> {
  const announced = await announcedRelay(account)
  const endpoint = (flag ?? process.env['STATIC_RELAY']) || undefined
  const relayName = process.env['STATIC_RELAY_NAME'] || undefined
  const given = endpoint === undefined ? undefined : { endpoint, ...(relayName === undefined ? {} : { relayName }) }
  const saved = readCredentials(account.places.credentials)
  const { relay, note: words } = chooseRelay(account.apiUrl, { given, saved, announced })
  if (words !== undefined) note(words)
  return relay
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
      ...(relay?.grpcPort === undefined ? {} : { relay_grpc_port: String(relay.grpcPort) }),
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
  if (relay === undefined)
    note(
      `${apiUrl} announces no relay, so none is saved: programs need STATIC_RELAY. If the server was still starting, run \`${commandLine('login')}\` again.`,
    )
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
