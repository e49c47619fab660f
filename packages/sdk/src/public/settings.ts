/**
 * The settings of a client, from three sources: options, then environment variables, then the per-user file. This is
 * the only place where the SDK reads the environment.
 *
 * Each value is looked up separately, so a key from one source can be sent to an API whose address comes from another.
 * That is safe: anyone who can set a user's environment or write the user's file can act as that user.
 */
import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { inspect } from 'node:util'
import {
  fromHex,
  RECEIPT_MODES,
  type ReceiptMode,
  StaticError,
  TRAFFIC_PROFILES,
  type TrafficProfileName,
} from '@static/protocol'
import { type Endpoint, isLocal, isLoopback, parseApiUrl, parseEndpoint } from '../account/endpoint.ts'
import { OFFER_POLICIES, type OfferPolicy } from '../joining/offers.ts'
import { type InviteLink, linkEndpoint, parseInviteLink } from '../admitting/link.ts'
import type { KeySource } from '../store/keys/sources.ts'
import { readRelayFile } from '../store/relay-file.ts'
import { checkApiKey } from '../account/token-source.ts'
import { type Credentials, localAuthority, readAuthority, readCredentials } from '../account/user-files.ts'

/** Options of a client. A missing option falls back to its environment variable, then to the per-user file. */
export interface ClientOptions {
  /**
   * Address of the relay, `quic://host:4433` or `https://host:5000`, or several of one kind, separated by commas: the
   * nodes of one relay, dialed in random order until one answers. Environment: `STATIC_RELAY`.
   */
  readonly endpoint?: string
  /** Directory of the agent's database; not shared with other agents. Environment: `STATIC_DATA_DIR`. */
  readonly dataDir?: string
  /**
   * The agent's name: 1 to 255 bytes, the first not zero; a string is encoded as UTF-8. Environment: `STATIC_IDENTITY`.
   */
  readonly identity?: Uint8Array | string
  /**
   * An invite link, for an agent that has no relay yet: the link gives its address, name and CA, and the agent stores
   * them in `dataDir`. At a relay it knows only from a link, the agent is a guest, unless the same endpoint is
   * configured here.
   */
  readonly link?: string
  /** API key. Null makes the agent a guest even if a key is set elsewhere. Environment: `STATIC_API_KEY`. */
  readonly apiKey?: string | null
  /** https URL of the API, which exchanges the key for tokens. Environment: `STATIC_API_URL`. */
  readonly apiUrl?: string
  /** CA of the relay's and the API's certificates, as a path or PEM text. Environment: `STATIC_CA`. */
  readonly ca?: string
  /**
   * Name in the relay's certificate if it is not the host of the endpoint: for IP addresses and several hosts.
   * Environment: `STATIC_RELAY_NAME`.
   */
  readonly relayName?: string
  /** Traffic profile. Default: `standard`. */
  readonly traffic?: TrafficProfileName
  /** Cells per second of the `strict` profile, 1 to 64. Default: 4. */
  readonly cellsPerSecond?: number
  /** The agents whose offers to join a channel are accepted: `anyone` (default), `known` agents, or `none`. */
  readonly offers?: OfferPolicy
  /**
   * The level that this agent's signed receipts report to the other members of a channel: `settled` (default), how far
   * the application has settled messages; `delivered`, only how far they were received; or `off`, nothing.
   */
  readonly receipts?: ReceiptMode
  /** The key that unlocks the agent's database. Default: a key file in `dataDir`. */
  readonly key?: KeySource
  /** Whether to use gRPC if QUIC cannot connect. Default: true. */
  readonly fallback?: boolean
  /**
   * gRPC port of the relay's host, used if QUIC cannot connect. Default: the port the relay announced in an earlier
   * session, otherwise 5000. Environment: `STATIC_GRPC_PORT`.
   */
  readonly grpcPort?: number
  /**
   * Id of the relay, 64 hexadecimal digits, to accept instead of the one this agent knows. Take it from
   * `relay_changed`, once you know that the operator has set up the relay again. The channels of the old relay end.
   */
  readonly acceptRelay?: string
  /**
   * Open the database even if it is an old copy. Use it only to leave its channels: sending would use keys twice.
   * Default: false.
   */
  readonly acceptRolledBack?: boolean
  /** Timeout in milliseconds of one attempt to reach the relay. Default: 5,000. */
  readonly connectTimeoutMs?: number
  /**
   * Start even if the relay or the API cannot be reached: `connect` resolves, and the agent connects when it can.
   * Default: false.
   */
  readonly wait?: boolean
}

/** The settings of a client, complete and validated. */
export interface Settings {
  readonly endpoint: Endpoint
  /** Whether to use gRPC if QUIC cannot connect. */
  readonly fallback: boolean
  /** The gRPC port for that; undefined: the one the relay announced, otherwise 5000. */
  readonly grpcPort: number | undefined
  /** An absolute path. */
  readonly dataDir: string
  readonly identity: Uint8Array
  /** Undefined for a guest. */
  readonly apiKey: string | undefined
  /** Always set if there is a key. */
  readonly apiUrl: string | undefined
  /** PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  readonly traffic: TrafficProfileName
  /** 0: the default of the profile. */
  readonly cellsPerSecond: number
  readonly offers: OfferPolicy
  readonly receipts: ReceiptMode
  readonly key: KeySource
  /** Id of a relay to accept instead of the known one. */
  readonly acceptRelay: Uint8Array | undefined
  readonly acceptRolledBack: boolean
  readonly connectTimeoutMs: number
  readonly wait: boolean
  /** Set if the endpoint comes from a link that this agent has not used yet. */
  readonly adopt: Adoption | undefined
}

/** A link whose relay becomes the agent's, unless the agent has met another one. */
export interface Adoption {
  readonly link: InviteLink
  /** The settings to use if the agent has met another relay; undefined if none is configured. */
  readonly otherwise: Settings | undefined
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Paths of a user's files. */
export interface UserPlaces {
  /** The per-user credentials file. */
  readonly credentials: string
  /** The data directory of `static up`. */
  readonly server: string
  /** The directory of the agents that the command line creates. */
  readonly agents: string
}

/** A user's account: the API and the key to it. */
export interface AccountSettings {
  readonly apiUrl: string
  readonly apiKey: string | undefined
  /** PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  /** The CA as given, to pass on as `ClientOptions.ca`; undefined if it was found or there is none. */
  readonly givenCa: string | undefined
  /** Undefined if not configured. */
  readonly relay: string | undefined
  /** The name in its certificate, where it was set or saved. */
  readonly relayName: string | undefined
  readonly places: UserPlaces
}

/** Looks up an option, then its variable, then the value in the per-user file. */
type Lookup = (option: keyof ClientOptions, variable: string, kept?: string) => string | undefined

const MAX_IDENTITY_BYTES = 255
const CONNECT_TIMEOUT_MS = 5_000
const LONGEST_TIMEOUT_MS = 600_000
/** The highest rate that relays accept. */
const FASTEST_RATE = 64
const HIGHEST_PORT = 65_535

/**
 * Collects and validates the settings of a client.
 *
 * @throws {StaticError} `invalid_request` if a value is missing or invalid, `auth_key_invalid` for a malformed API key,
 *   `store_permissions` if other users can access the per-user file
 */
export function resolveSettings(
  options: ClientOptions,
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): Settings {
  const places = userPlaces(env)
  const file = readCredentials(places.credentials)
  // An empty variable counts as unset, as in the shell.
  const text: Lookup = (option, variable, kept) =>
    checkText(option, options[option]) ?? (env[variable] || undefined) ?? kept

  const dataDir = resolve(required('dataDir', 'STATIC_DATA_DIR', text('dataDir', 'STATIC_DATA_DIR')))
  const given = text('endpoint', 'STATIC_RELAY')
  const named = given ?? file.relay
  const savedName = given === undefined ? file.relay_name : undefined
  const configured = named && parseEndpoint(named, { relayName: text('relayName', 'STATIC_RELAY_NAME', savedName) })
  const bound = readRelayFile(dataDir)
  const link = options.link === undefined ? undefined : parseInviteLink(options.link)
  const linked = bound ?? link
  const common = commonSettings(options, env, dataDir, text)
  const account = accountSettings(options, text, file)
  const ownRelay = (endpoint: Endpoint): Settings => {
    const { apiKey, apiUrl } = account
    // A link must not decide where a key or token goes.
    const linkedCa = apiKey === undefined && endpoint.url === bound?.endpoint ? bound.ca : undefined
    const authority = text('ca', 'STATIC_CA', file.ca) ?? linkedCa
    const isHere = isLocal(endpoint) && (apiKey === undefined || apiUrl === undefined || isLoopback(hostOf(apiUrl)))
    return { ...common, ...account, ...wayOf(options, endpoint), ca: authorityOf(authority, isHere, places) }
  }
  const own = configured ? ownRelay(configured) : undefined
  if (linked === undefined || given !== undefined || own?.endpoint.url === linked.endpoint) {
    return own ?? missing('endpoint', 'STATIC_RELAY')
  }
  const endpoint = linkEndpoint(linked)
  const authority = checkText('ca', options.ca) ?? linked.ca
  const relay = { ...wayOf(options, endpoint), ca: authorityOf(authority, isLocal(endpoint), places) }
  if (bound !== undefined || link === undefined) return { ...common, ...GUEST, ...relay }
  const first = { acceptRelay: fromHex(link.relayId), grpcPort: common.grpcPort ?? link.grpcPort }
  return { ...common, ...GUEST, ...relay, ...first, adopt: { link, otherwise: own } }
}

/** A relay from a link gets no key and no token. */
const GUEST = { apiKey: undefined, apiUrl: undefined } as const

/** The settings that do not depend on the relay. */
function commonSettings(
  options: ClientOptions,
  env: Environment,
  dataDir: string,
  text: Lookup,
): Omit<Settings, 'endpoint' | 'fallback' | 'apiKey' | 'apiUrl' | 'ca'> {
  return {
    grpcPort: checkPort(options.grpcPort ?? (env['STATIC_GRPC_PORT'] || undefined)),
    dataDir,
    identity: checkIdentity(
      options.identity instanceof Uint8Array
        ? options.identity
        : required('identity', 'STATIC_IDENTITY', text('identity', 'STATIC_IDENTITY')),
    ),
    traffic: checkTraffic(options.traffic),
    cellsPerSecond: checkRate(options.cellsPerSecond, options.traffic),
    offers: checkOffers(options.offers),
    receipts: checkReceipts(options.receipts),
    key: options.key ?? { type: 'file' },
    acceptRelay: checkRelayId(options.acceptRelay),
    acceptRolledBack: flag('acceptRolledBack', options.acceptRolledBack, false),
    connectTimeoutMs: checkTimeout(options.connectTimeoutMs),
    wait: flag('wait', options.wait, false),
    adopt: undefined,
  }
}

function wayOf(options: ClientOptions, endpoint: Endpoint): Pick<Settings, 'endpoint' | 'fallback'> {
  return { endpoint, fallback: flag('fallback', options.fallback, true) && endpoint.way === 'quic' }
}

function accountSettings(options: ClientOptions, text: Lookup, file: Credentials): Pick<Settings, 'apiKey' | 'apiUrl'> {
  const apiKey = options.apiKey === null ? undefined : text('apiKey', 'STATIC_API_KEY', file.api_key)
  const url = text('apiUrl', 'STATIC_API_URL', file.api_url)
  const apiUrl = url === undefined ? undefined : parseApiUrl(url)
  if (apiKey !== undefined) {
    checkApiKey(apiKey)
    if (apiUrl === undefined) {
      throw invalid('An API key is set, but no API URL. Set the option `apiUrl` or STATIC_API_URL.')
    }
  }
  return { apiKey, apiUrl }
}

/**
 * The account settings alone, for a program that calls the API itself. `usualApiUrl` is the API's default address.
 *
 * @throws {StaticError} see `resolveSettings`
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
  const given = text('endpoint', 'STATIC_RELAY')
  const relayName = (env['STATIC_RELAY_NAME'] || undefined) ?? (given === undefined ? file.relay_name : undefined)
  return { apiUrl, apiKey, ca, givenCa, relay: given ?? file.relay, relayName, places }
}

/** The paths of this user's files. */
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

/** The given CA, or for a local server the CA of `static up`. */
function authorityOf(given: string | undefined, isHere: boolean, { server }: UserPlaces): string | undefined {
  if (given !== undefined) return readAuthority(given)
  return isHere ? localAuthority(server) : undefined
}

/** An XDG base directory of the user. The XDG specification treats a relative path as unset. */
function userDirectory(env: Environment, variable: string, inHome: string): string {
  const set = env[variable] ?? ''
  if (isAbsolute(set)) return set
  const home = env['HOME'] ?? ''
  return join(isAbsolute(home) ? home : homedir(), inHome)
}

function required(option: string, variable: string, value: string | undefined): string {
  return value ?? missing(option, variable)
}

function missing(option: string, variable: string): never {
  throw invalid(`\`${option}\` is required. Set the option or ${variable}.`)
}

function checkText(option: string, value: unknown): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value
  throw invalid(`\`${option}\` ${value === '' ? 'is empty' : 'is not a string'}. Pass a non-empty string.`)
}

/** @internal The bytes of an identity. Throws `invalid_request`. */
export function checkIdentity(given: Uint8Array | string): Uint8Array {
  // A lone surrogate has no UTF-8 encoding: different strings would become the same identity.
  if (typeof given === 'string' && !given.isWellFormed())
    throw invalid('`identity` is not valid Unicode: it contains a lone surrogate.')
  const identity = typeof given === 'string' ? new TextEncoder().encode(given) : new Uint8Array(given)
  if (identity.length >= 1 && identity.length <= MAX_IDENTITY_BYTES && identity[0] !== 0) return identity
  const fault = identity[0] === 0 ? 'begins with a zero byte' : `has ${identity.length} bytes`
  throw invalid(`\`identity\` ${fault}. It must have 1 to ${MAX_IDENTITY_BYTES} bytes, and the first must not be zero.`)
}

function checkTraffic(given: TrafficProfileName = 'standard'): TrafficProfileName {
  if (TRAFFIC_PROFILES.includes(given)) return given
  throw invalid(`\`traffic\` is ${shown(given)}. It must be one of ${TRAFFIC_PROFILES.join(', ')}.`)
}

function checkOffers(given: OfferPolicy = 'anyone'): OfferPolicy {
  if (OFFER_POLICIES.includes(given)) return given
  throw invalid(`\`offers\` is ${shown(given)}. It must be one of ${OFFER_POLICIES.join(', ')}.`)
}

function checkReceipts(given: ReceiptMode = 'settled'): ReceiptMode {
  if (RECEIPT_MODES.includes(given)) return given
  throw invalid(`\`receipts\` is ${shown(given)}. It must be one of ${RECEIPT_MODES.join(', ')}.`)
}

function checkRate(given: number | undefined, traffic: TrafficProfileName | undefined): number {
  if (given === undefined) return 0
  if (traffic !== 'strict') {
    throw invalid(`\`cellsPerSecond\` needs the traffic profile strict, but \`traffic\` is ${traffic ?? 'standard'}.`)
  }
  if (Number.isInteger(given) && given >= 1 && given <= FASTEST_RATE) return given
  throw invalid(`\`cellsPerSecond\` is ${shown(given)}. It must be an integer from 1 to ${FASTEST_RATE}.`)
}

function checkPort(given: unknown): number | undefined {
  if (given === undefined) return undefined
  const port = typeof given === 'string' && /^\d{1,5}$/.test(given) ? Number(given) : given
  if (typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= HIGHEST_PORT) return port
  throw invalid(`\`grpcPort\` is ${shown(given)}. It must be an integer from 1 to ${HIGHEST_PORT}.`)
}

function checkRelayId(given: unknown): Uint8Array | undefined {
  if (given === undefined) return undefined
  const digits = typeof given === 'string' ? given.replaceAll(/[\s:]/g, '').toLowerCase() : ''
  if (/^[0-9a-f]{64}$/.test(digits)) return fromHex(digits)
  throw invalid(`\`acceptRelay\` is ${shown(given)}. It must be the id of the relay: 64 hexadecimal digits.`)
}

function checkTimeout(given: number = CONNECT_TIMEOUT_MS): number {
  if (Number.isInteger(given) && given >= 1 && given <= LONGEST_TIMEOUT_MS) return given
  throw invalid(`\`connectTimeoutMs\` is ${shown(given)}. It must be an integer from 1 to ${LONGEST_TIMEOUT_MS}.`)
}

function flag(option: string, given: boolean | undefined, usual: boolean): boolean {
  if (given === undefined || typeof given === 'boolean') return given ?? usual
  throw invalid(`\`${option}\` is ${shown(given)}. It must be true or false.`)
}

/** A wrong value, for an error message. */
function shown(value: unknown): string {
  return inspect(value, { depth: 0, maxStringLength: 100, breakLength: Infinity })
}

function hostOf(url: string): string {
  return new URL(url).hostname.replaceAll(/[[\]]/g, '')
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
