/** Whose account a command acts for, and its calls to the API. */
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { type AccountSettings, apiRefusal, type ApiCall, callApi, resolveAccount } from '@static/sdk/account'
import { typed } from '../terminal/output.ts'
import { withProgress } from '../terminal/progress.ts'
import { warnOfArgument } from '../terminal/secrets.ts'

/** Where `static up` serves the API. */
export const USUAL_API_URL = 'https://localhost:8443'
const USUAL_RELAY_PORT = 4433

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
    .option('--api-url <url>', `address of the API (STATIC_API_URL; else as saved, else ${USUAL_API_URL})`)
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
  return resolveAccount(options, USUAL_API_URL)
}

/** The relay that belongs to an API when nobody has said: the same host. */
export function usualRelay(apiUrl: string): string {
  return `quic://${new URL(apiUrl).hostname}:${USUAL_RELAY_PORT}`
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
    `You are not signed in: run \`${typed('signup')}\` or \`${typed('login')}\`, or set STATIC_API_KEY.`,
  )
}

/** A call below the address of the API. */
export interface Wish extends Pick<ApiCall, 'method' | 'apiKey' | 'body' | 'headers'> {
  readonly path: string
  /** What the terminal shows while it takes long. */
  readonly doing: string
}

/** An answer that the API gave gladly. */
export interface Granted<Body> {
  readonly body: Body
  readonly cookies: readonly string[]
}

/**
 * Calls the API.
 *
 * @throws {StaticError} with the code of the API's refusal, or `connection_error`
 */
export async function ask<Body>(account: AccountSettings, wish: Wish): Promise<Granted<Body>> {
  const { path, doing, ...call } = wish
  const url = new URL(`${account.apiUrl}${path}`)
  const answer = await withProgress(doing, callApi({ ...call, url, ca: account.ca }))
  if (answer.status >= 300) throw explained(apiRefusal(url, answer, wish.apiKey))
  return { body: answer.json as Body, cookies: answer.headers['set-cookie'] ?? [] }
}

/** The fields that are wrong, in the one sentence that a person sees. */
function explained(error: StaticError): StaticError {
  const { errors = [], retryAfter } = error.details
  const fields = errors.map(({ field, message }) => `${field} ${message}`).join('; ')
  const wait = retryAfter === undefined ? '' : ` Try again in ${retryAfter} s.`
  if (fields === '' && wait === '') return error
  const words = fields === '' ? error.message : `${error.message.replace(/\.$/, '')}: ${fields.replace(/\.$/, '')}.`
  return StaticError.of(error.code, `${words}${wait}`, error.details)
}
