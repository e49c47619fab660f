/** The account that a command uses. */
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { type AccountSettings, type AnnouncedRelay, announcedRelay, resolveAccount } from '@static/sdk/account'
import { commandLine } from '../terminal/output.ts'
import { warnOfArgument } from '../terminal/secrets.ts'
import { clientFlag } from './client-flag.ts'

/** The address at which `static up` serves the API. */
export const DEFAULT_API_URL = 'https://localhost:8443'

/** Flags of every command that calls the API; used alone by commands that need no account. */
export interface ApiFlags {
  readonly apiUrl?: string
  readonly ca?: string
  readonly json?: boolean
}

/** Flags of every command that needs an account. */
export interface AccountFlags extends ApiFlags {
  readonly apiKey?: string
}

export function addApiFlags(command: Command): Command {
  return command
    .addOption(clientFlag('apiUrl', '--api-url <url>', 'URL of the API', DEFAULT_API_URL))
    .addOption(clientFlag('ca', '--ca <file>', 'CA of the server certificates, PEM', 'that of a local `static up`'))
    .option('--json', 'print JSON')
}

export function addAccountFlags(command: Command): Command {
  return addApiFlags(command).option('--api-key <key>', 'API key; prefer STATIC_API_KEY or the key saved by signup')
}

/** The account from the flags, then the environment, then the per-user file. */
export function accountOf({ apiUrl, ca, apiKey }: AccountFlags): AccountSettings {
  if (apiKey !== undefined) warnOfArgument('API key', 'set STATIC_API_KEY or run `static login --with-key`')
  const options = {
    ...(apiUrl === undefined ? {} : { apiUrl }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(ca === undefined ? {} : { ca }),
  }
  return resolveAccount(options, DEFAULT_API_URL)
}

/**
 * The relay of an account: the given one, else the configured one, else the one that its API announces.
 *
 * @throws {StaticError} `invalid_request` if there is none; see `announcedRelay`
 */
export async function relayOf(account: AccountSettings, given?: string): Promise<AnnouncedRelay> {
  const endpoint = given ?? account.relay
  // A saved name is that of the saved relay.
  const relayName = given === undefined ? account.relayName : process.env['STATIC_RELAY_NAME'] || undefined
  const grpcPort = given === undefined ? account.relayGrpcPort : undefined
  if (endpoint !== undefined) {
    return {
      endpoint,
      ...(relayName === undefined ? {} : { relayName }),
      ...(grpcPort === undefined ? {} : { grpcPort }),
    }
  }
  const announced = await announcedRelay(account)
  if (announced !== undefined) return announced
  throw StaticError.of(
    'invalid_request',
    `The API at ${account.apiUrl} announces no relay. Pass --relay, or set STATIC_RELAY.`,
  )
}

/**
 * The API key of the account.
 *
 * @throws {StaticError} `auth_failed` if there is none
 */
export function keyOf({ apiKey, places }: AccountSettings): string {
  if (apiKey !== undefined) return apiKey
  // The key of a named account is in its file alone.
  const variable = places.account === undefined ? ', or set STATIC_API_KEY' : ''
  throw StaticError.of(
    'auth_failed',
    `You are not signed in. Run \`${commandLine('signup')}\` or \`${commandLine('login')}\`${variable}.`,
  )
}
