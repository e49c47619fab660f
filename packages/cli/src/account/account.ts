/** Whose account a command acts for. */
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { type AccountSettings, resolveAccount } from '@static/sdk/account'
import { commandLine } from '../terminal/output.ts'
import { warnOfArgument } from '../terminal/secrets.ts'

/** Where `static up` serves the API. */
export const DEFAULT_API_URL = 'https://localhost:8443'
const DEFAULT_RELAY_PORT = 4433

/** Flags of every command that calls the API without an account yet. */
export interface ApiFlags {
  readonly apiUrl?: string
  readonly ca?: string
  readonly json?: boolean
}

/** Flags of every command that acts for an account. */
export interface AccountFlags extends ApiFlags {
  readonly apiKey?: string
}

/** Adds the flags to a command. */
export function addApiFlags(command: Command): Command {
  return command
    .option('--api-url <url>', `address of the API (STATIC_API_URL; else as saved, else ${DEFAULT_API_URL})`)
    .option('--ca <file>', 'authority of the server certificates, PEM (STATIC_CA; that of `static up` is found)')
    .option('--json', 'print JSON')
}

/** Adds the flags to a command. */
export function addAccountFlags(command: Command): Command {
  return addApiFlags(command).option('--api-key <key>', 'API key (better: STATIC_API_KEY, or as saved by signup)')
}

/** The account that the flags, the environment and the per-user file mean, in this order. */
export function accountOf({ apiUrl, ca, apiKey }: AccountFlags): AccountSettings {
  if (apiKey !== undefined) warnOfArgument('API key', 'set STATIC_API_KEY, or `static login --with-key`')
  const options = {
    ...(apiUrl === undefined ? {} : { apiUrl }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(ca === undefined ? {} : { ca }),
  }
  return resolveAccount(options, DEFAULT_API_URL)
}

/** The relay that belongs to an API when nobody has said: the same host. */
export function defaultRelay(apiUrl: string): string {
  return `quic://${new URL(apiUrl).hostname}:${DEFAULT_RELAY_PORT}`
}

/**
 * The key of the account.
 *
 * @throws {StaticError} `auth_failed` when there is none
 */
export function keyOf({ apiKey }: AccountSettings): string {
  if (apiKey !== undefined) return apiKey
  throw StaticError.of(
    'auth_failed',
    `You are not signed in: run \`${commandLine('signup')}\` or \`${commandLine('login')}\`, or set STATIC_API_KEY.`,
  )
}
