/**
 * What a client is to do, from three places: options, then the environment, then the per-user file. Here alone does the
 * SDK read the environment.
 *
 * Each value is looked up for itself. So a key from one place can go to an API whose address comes from another: who can
 * set a user's environment, or write the user's file, is the user.
 */
import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { StaticError, TRAFFIC_PROFILES, type TrafficProfileName } from '@static/protocol'
import { type Endpoint, grpcFallback, isLoopback, parseApiUrl, parseEndpoint } from './endpoint.ts'
import { OFFER_POLICIES, type OfferPolicy } from './core/agent/offer-limits.ts'
import type { KeySource } from './store/key-sources.ts'
import { checkApiKey } from './tokens.ts'
import { localAuthority, readAuthority, readCredentials } from './user-files.ts'

/** What a client can be told. What is missing comes from the environment, then from the per-user file. */
export interface ClientOptions {
  /** `quic://host:4433` or `https://host:5000`. `STATIC_RELAY`. */
  readonly endpoint?: string
  /** The agent's directory, for itself alone. `STATIC_DATA_DIR`. */
  readonly dataDir?: string
  /** What the agent calls itself: 1 to 255 bytes, the first not zero; a text is taken as UTF-8. `STATIC_IDENTITY`. */
  readonly identity?: Uint8Array | string
  /** `STATIC_API_KEY`; null: a guest, even if there is a key elsewhere. */
  readonly apiKey?: string | null
  /** Where the key is exchanged for tokens, https. `STATIC_API_URL`. */
  readonly apiUrl?: string
  /** The authority of the relay's and the API's certificates, a path or PEM text. `STATIC_CA`. */
  readonly ca?: string
  /** The name in the relay's certificate, when the endpoint is an IP address. `STATIC_RELAY_NAME`. */
  readonly relayName?: string
  /** `standard` by default. */
  readonly traffic?: TrafficProfileName
  /** The rate of the profile `strict`, 1 to 64; 4 by default. */
  readonly cellsPerSecond?: number
  /** Whose offers to join a channel are taken: `anyone` (default), `known` agents, `none`. */
  readonly offers?: OfferPolicy
  /** What opens the agent's database; a file in its directory by default. */
  readonly key?: KeySource
  /** Whether gRPC is used when QUIC cannot be dialled; true by default. */
  readonly fallback?: boolean
  /** Opens a database that is an old copy; false by default. */
  readonly acceptRolledBack?: boolean
  /** How long one try to reach the relay may take; 5,000 by default. */
  readonly connectTimeoutMs?: number
}

/** What a client does: complete, and checked. */
export interface Settings {
  readonly endpoint: Endpoint
  /** Where to dial when QUIC cannot be; undefined: nowhere else. */
  readonly fallback: Endpoint | undefined
  /** Absolute. */
  readonly dataDir: string
  readonly identity: Uint8Array
  /** Undefined: a guest. */
  readonly apiKey: string | undefined
  /** There whenever there is a key. */
  readonly apiUrl: string | undefined
  /** PEM; undefined: the authorities that Node knows. */
  readonly ca: string | undefined
  readonly traffic: TrafficProfileName
  /** 0: the profile's own. */
  readonly cellsPerSecond: number
  readonly offers: OfferPolicy
  readonly key: KeySource
  readonly acceptRolledBack: boolean
  readonly connectTimeoutMs: number
}

/** The variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Where a user's things lie. */
export interface UserPlaces {
  /** The per-user file. */
  readonly credentials: string
  /** The data of `static up`. */
  readonly server: string
  /** The directories of the agents of the command line. */
  readonly agents: string
}

/** Where the account of a user is, and the key to it. */
export interface AccountSettings {
  readonly apiUrl: string
  readonly apiKey: string | undefined
  /** PEM; undefined: the authorities that Node knows. */
  readonly ca: string | undefined
  /** As it was given, for `ClientOptions.ca`; undefined when it was found or there is none. */
  readonly givenCa: string | undefined
  /** Undefined when nobody has said. */
  readonly relay: string | undefined
  readonly places: UserPlaces
}

const MAX_IDENTITY_BYTES = 255
const CONNECT_TIMEOUT_MS = 5_000
const LONGEST_TIMEOUT_MS = 600_000
/** Relays take no more. */
const FASTEST_RATE = 64

/**
 * Gathers and checks the settings of a client.
 *
 * @throws {StaticError} `invalid_request` when something is missing or wrong, `auth_key_invalid` for what cannot be a
 *   key, `store_permissions` when others can reach the per-user file
 */
export function resolveSettings(
  options: ClientOptions,
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): Settings {
  const places = userPlaces(env)
  const file = readCredentials(places.credentials)
  // An empty variable is the shell's way to say that there is none.
  const text = (option: keyof ClientOptions, variable: string, kept?: string): string | undefined =>
    checkText(option, options[option]) ?? (env[variable] || undefined) ?? kept

  const endpoint = parseEndpoint(required('endpoint', 'STATIC_RELAY', text('endpoint', 'STATIC_RELAY', file.relay)), {
    relayName: text('relayName', 'STATIC_RELAY_NAME'),
  })
  const dataDir = resolve(required('dataDir', 'STATIC_DATA_DIR', text('dataDir', 'STATIC_DATA_DIR')))
  const identity = checkIdentity(
    options.identity instanceof Uint8Array
      ? options.identity
      : required('identity', 'STATIC_IDENTITY', text('identity', 'STATIC_IDENTITY')),
  )
  const apiKey = options.apiKey === null ? undefined : text('apiKey', 'STATIC_API_KEY', file.api_key)
  const givenUrl = text('apiUrl', 'STATIC_API_URL', file.api_url)
  const apiUrl = givenUrl === undefined ? undefined : parseApiUrl(givenUrl)
  if (apiKey !== undefined) {
    checkApiKey(apiKey)
    if (apiUrl === undefined) {
      throw invalid('There is an API key but no API to use it at: set the option `apiUrl` or STATIC_API_URL.')
    }
  }
  const authority = text('ca', 'STATIC_CA', file.ca)
  const isLocal =
    isLoopback(endpoint.host) && (apiKey === undefined || apiUrl === undefined || isLoopback(hostOf(apiUrl)))
  return {
    endpoint,
    fallback: endpoint.way === 'quic' && flag('fallback', options.fallback, true) ? grpcFallback(endpoint) : undefined,
    dataDir,
    identity,
    apiKey,
    apiUrl,
    ca: authorityOf(authority, isLocal, places),
    traffic: checkTraffic(options.traffic),
    cellsPerSecond: checkRate(options.cellsPerSecond, options.traffic),
    offers: checkOffers(options.offers),
    key: options.key ?? { type: 'file' },
    acceptRolledBack: flag('acceptRolledBack', options.acceptRolledBack, false),
    connectTimeoutMs: checkTimeout(options.connectTimeoutMs),
  }
}

/**
 * The part of the settings that has to do with the account, for a program that calls the API itself. `usualApiUrl` is
 * where the API is when nobody has said.
 *
 * @throws {StaticError} as `resolveSettings`
 */
export function resolveAccount(
  options: Pick<ClientOptions, 'apiKey' | 'apiUrl' | 'ca' | 'endpoint'>,
  usualApiUrl: string,
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): AccountSettings {
  const places = userPlaces(env)
  const file = readCredentials(places.credentials)
  const text = (option: keyof typeof options, variable: string, kept?: string): string | undefined =>
    checkText(option, options[option]) ?? (env[variable] || undefined) ?? kept
  const apiUrl = parseApiUrl(text('apiUrl', 'STATIC_API_URL', file.api_url) ?? usualApiUrl)
  const apiKey = options.apiKey === null ? undefined : text('apiKey', 'STATIC_API_KEY', file.api_key)
  if (apiKey !== undefined) checkApiKey(apiKey)
  const givenCa = text('ca', 'STATIC_CA', file.ca)
  const ca = authorityOf(givenCa, isLoopback(hostOf(apiUrl)), places)
  return { apiUrl, apiKey, ca, givenCa, relay: text('endpoint', 'STATIC_RELAY', file.relay), places }
}

/** Where the things of this user lie. */
export function userPlaces(
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): UserPlaces {
  const data = join(userDirectory(env, 'XDG_DATA_HOME', '.local/share'), 'static')
  return {
    credentials: join(userDirectory(env, 'XDG_CONFIG_HOME', '.config'), 'static', 'credentials.json'),
    server: join(data, 'server'),
    agents: join(data, 'agents'),
  }
}

/** The authority that was named, else on this machine that of `static up`. */
function authorityOf(given: string | undefined, isLocal: boolean, { server }: UserPlaces): string | undefined {
  if (given !== undefined) return readAuthority(given)
  return isLocal ? localAuthority(server) : undefined
}

/** A base directory of the user; as its specification has it, a relative path counts as unset. */
function userDirectory(env: Environment, variable: string, inHome: string): string {
  const set = env[variable] ?? ''
  if (isAbsolute(set)) return set
  const home = env['HOME'] ?? ''
  return join(isAbsolute(home) ? home : homedir(), inHome)
}

function required(option: string, variable: string, value: string | undefined): string {
  if (value !== undefined) return value
  throw invalid(`The option \`${option}\` is missing, and ${variable} is not set.`)
}

function checkText(option: string, value: unknown): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value
  throw invalid(`The option \`${option}\` must be a text that is not empty.`)
}

function checkIdentity(given: Uint8Array | string): Uint8Array {
  // A lone half of a surrogate pair has no UTF-8: different texts would become the same identity.
  if (typeof given === 'string' && !given.isWellFormed()) throw invalid('The identity is not valid Unicode text.')
  const identity = typeof given === 'string' ? new TextEncoder().encode(given) : new Uint8Array(given)
  if (identity.length >= 1 && identity.length <= MAX_IDENTITY_BYTES && identity[0] !== 0) return identity
  throw invalid('The identity must have 1 to 255 bytes, the first of them not zero.')
}

function checkTraffic(given: TrafficProfileName = 'standard'): TrafficProfileName {
  if (TRAFFIC_PROFILES.includes(given)) return given
  throw invalid(`The option \`traffic\` must be one of ${TRAFFIC_PROFILES.join(', ')}.`)
}

function checkOffers(given: OfferPolicy = 'anyone'): OfferPolicy {
  if (OFFER_POLICIES.includes(given)) return given
  throw invalid(`The option \`offers\` must be one of ${OFFER_POLICIES.join(', ')}.`)
}

function checkRate(given: number | undefined, traffic: TrafficProfileName | undefined): number {
  if (given === undefined) return 0
  if (traffic !== 'strict') throw invalid('The option `cellsPerSecond` belongs to the traffic profile strict.')
  if (Number.isInteger(given) && given >= 1 && given <= FASTEST_RATE) return given
  throw invalid(`The option \`cellsPerSecond\` must be a whole number from 1 to ${FASTEST_RATE}.`)
}

function checkTimeout(given: number = CONNECT_TIMEOUT_MS): number {
  if (Number.isInteger(given) && given >= 1 && given <= LONGEST_TIMEOUT_MS) return given
  throw invalid(`The option \`connectTimeoutMs\` must be a whole number from 1 to ${LONGEST_TIMEOUT_MS}.`)
}

function flag(option: string, given: boolean | undefined, usual: boolean): boolean {
  if (given === undefined || typeof given === 'boolean') return given ?? usual
  throw invalid(`The option \`${option}\` must be true or false.`)
}

function hostOf(url: string): string {
  return new URL(url).hostname.replaceAll(/[[\]]/g, '')
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
