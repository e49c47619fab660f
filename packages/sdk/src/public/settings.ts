/**
 * The settings of a client, from three sources: options, then environment variables, then the per-user file of the
 * account. Only this and `places.ts` read the environment.
 *
 * Each value is looked up separately, so a key from one source can be sent to an API whose address comes from another.
 * That is safe: anyone who can set a user's environment or write the user's file can act as that user.
 */
import { resolve } from 'node:path'
import { checkOptionNames, fromHex, type ReceiptMode, StaticError, type TrafficProfileName } from '@static/protocol'
import { type Endpoint, isLocal, isLoopback, parseApiUrl, parseEndpoint } from '../account/endpoint.ts'
import type { ProofSettings } from '../account/trust/desk.ts'
import type { HistoryOption } from '../channel/keeping/keeping.ts'
import type { ClientOptions } from '../gen/client-options.ts'
import type { OfferPolicy } from '../joining/offers.ts'
import { shownValue } from './options/call-options.ts'
import { type InviteLink, linkEndpoint, parseInviteLink } from '../admitting/link.ts'
import type { Logger } from '../ports/index.ts'
import { parseRoot } from '../proofs/roots.ts'
import type { KeySource } from '../store/keys/sources.ts'
import { readRelayFile } from '../store/relay-file.ts'
import { checkApiKey } from '../account/token-source.ts'
import { checkAccount, type Environment, userPlaces, type UserPlaces } from '../account/places.ts'
import { localAuthority, readAuthority, readCredentials } from '../account/user-files.ts'
import {
  type ChoiceOption,
  type ClientOption,
  type DurationOption,
  type IntegerOption,
  OPTIONS,
} from './option-table.ts'

/** The settings of a client, complete and validated. */
export interface Settings {
  readonly endpoint: Endpoint
  /** Whether to use gRPC if QUIC cannot connect. */
  readonly fallback: boolean
  /** The gRPC port for that; undefined: the one the relay announced, otherwise 5000. */
  readonly grpcPort: number | undefined
  /** The gRPC port of a relay that has announced none to this agent yet. */
  readonly firstGrpcPort: number | undefined
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
  /** Undefined: as stored with the agent. */
  readonly history: HistoryOption | undefined
  readonly key: KeySource
  /** Id of a relay to accept instead of the known one. */
  readonly acceptRelay: Uint8Array | undefined
  readonly acceptRolledBack: boolean
  readonly visibleFiles: boolean
  readonly connectTimeoutMs: number
  /** False: none. Undefined: the default. */
  readonly logger: Logger | false | undefined
  readonly wait: boolean
  readonly proofs: ProofSettings
  /** Set if the endpoint comes from a link that this agent has not used yet. */
  readonly adopt: Adoption | undefined
}

/** A link whose relay becomes the agent's, unless the agent has met another one. */
export interface Adoption {
  readonly link: InviteLink
  /** The settings to use if the agent has met another relay; undefined if none is configured. */
  readonly otherwise: Settings | undefined
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
  /** Its gRPC port, where the API has announced it. */
  readonly relayGrpcPort: number | undefined
  readonly places: UserPlaces
}

/** The options that are texts and have a variable. */
type Named = 'endpoint' | 'dataDir' | 'identity' | 'apiKey' | 'apiUrl' | 'ca' | 'relayName'

/** Looks up options by their names. */
interface Lookup {
  /** Of the account that is chosen. */
  readonly places: UserPlaces
  /** The option, else its variable. */
  readonly given: (option: Named) => string | undefined
  /** The option, else its variable, else the value in the per-user file. */
  readonly text: (option: Named) => string | undefined
  /** The saved gRPC port, which is that of the saved relay. */
  readonly savedGrpcPort: () => number | undefined
}

const MAX_IDENTITY_BYTES = 255
const MOST_HISTORY_DAYS = 365

/**
 * Collects and validates the settings of a client.
 *
 * @throws {StaticError} `invalid_request` if a value is missing or invalid, `not_found` for an account that is not on
 *   this machine, `auth_key_invalid` for a malformed API key, `store_permissions` if other users can access the per-user file
 */
export function resolveSettings(
  options: ClientOptions,
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): Settings {
  checkOptionNames('connect', options, Object.keys(OPTIONS))
  const { places, given, text, savedGrpcPort } = lookup(options, env)
  checkAccount(places, env)

  const dataDir = absolute(text('dataDir') ?? missing('dataDir'))
  const named = text('endpoint')
  const configured = named && parseEndpoint(named, { relayName: relayNameOf({ given, text }) })
  const bound = readRelayFile(dataDir)
  const link = options.link === undefined ? undefined : parseInviteLink(options.link)
  const linked = bound ?? link
  const common = commonSettings(options, env, dataDir, { places, text })
  const account = accountSettings(options, text)
  const ownRelay = (endpoint: Endpoint): Settings => {
    const { apiKey, apiUrl } = account
    // A link must not decide where a key or token goes.
    const linkedCa = apiKey === undefined && endpoint.url === bound?.endpoint ? bound.ca : undefined
    const authority = text('ca') ?? linkedCa
    const isHere = isLocal(endpoint) && (apiKey === undefined || apiUrl === undefined || isLoopback(hostOf(apiUrl)))
    const ca = authorityOf(authority, isHere, places)
    return { ...common, ...account, ...wayOf(options, endpoint), ca, firstGrpcPort: savedGrpcPort() }
  }
  const own = configured ? ownRelay(configured) : undefined
  if (linked === undefined || given('endpoint') !== undefined || own?.endpoint.url === linked.endpoint) {
    return own ?? missing('endpoint')
  }
  const endpoint = linkEndpoint(linked)
  const authority = checkText('ca', options.ca) ?? linked.ca
  const relay = { ...wayOf(options, endpoint), ca: authorityOf(authority, isLocal(endpoint), places) }
  if (bound !== undefined || link === undefined) return { ...common, ...GUEST, ...relay }
  const first = { acceptRelay: fromHex(link.relayId), firstGrpcPort: link.grpcPort }
  return { ...common, ...GUEST, ...relay, ...first, adopt: { link, otherwise: own } }
}

/** A relay from a link gets no key and no token. */
const GUEST = { apiKey: undefined, apiUrl: undefined } as const

/** The settings that do not depend on the relay. */
function commonSettings(
  options: ClientOptions,
  env: Environment,
  dataDir: string,
  { places, text }: Pick<Lookup, 'places' | 'text'>,
): Omit<Settings, 'endpoint' | 'fallback' | 'apiKey' | 'apiUrl' | 'ca'> {
  const identity = checkIdentity(
    options.identity instanceof Uint8Array ? options.identity : (text('identity') ?? missing('identity')),
  )
  return {
    grpcPort: checkPort(options.grpcPort ?? variableOf(OPTIONS.grpcPort, env)),
    firstGrpcPort: undefined,
    dataDir,
    identity,
    proofs: proofSettings(options, env, { dataDir, identity, places }),
    ...trafficOf(options),
    offers: choice('offers', options.offers, OPTIONS.offers),
    receipts: choice('receipts', options.receipts, OPTIONS.receipts),
    history: checkHistory(options.history),
    key: options.key ?? { type: 'file' },
    acceptRelay: checkRelayId(options.acceptRelay),
    acceptRolledBack: flag('acceptRolledBack', options),
    visibleFiles: flag('visibleFiles', options),
    connectTimeoutMs: checkTimeout(options.connectTimeoutMs),
    logger: checkLogger(options.logger),
    wait: flag('wait', options),
    adopt: undefined,
  }
}

/** What the agent shows, and whom it believes. */
function proofSettings(
  { roots, proof }: ClientOptions,
  env: Environment,
  { dataDir, identity, places }: { dataDir: string; identity: Uint8Array; places: UserPlaces },
): ProofSettings {
  if (roots !== undefined && !(Array.isArray(roots) && roots.every((root) => typeof root === 'string')))
    throw invalid(`\`roots\` is ${shownValue(roots)}. It must be an array of strings.`)
  const isProof = proof === undefined || proof === 'github-actions' || typeof proof === 'function'
  if (!isProof && typeof proof?.file !== 'string')
    throw invalid(`\`proof\` is ${shownValue(proof)}. It must be github-actions, { file } or a function.`)
  const { HTTPS_PROXY: url, NO_PROXY: except = '' } = env
  return {
    trust: places.trust,
    domains: places.domains,
    dataDir,
    identity: new TextDecoder().decode(identity),
    roots: roots?.map((root) => parseRoot(root)),
    proof,
    proxy: url === undefined || url === '' ? undefined : { url, except },
    environment: Object.fromEntries(
      Object.entries(env).filter(([name]) => name.startsWith('ACTIONS_ID_TOKEN_REQUEST_')),
    ),
  }
}

function wayOf(options: ClientOptions, endpoint: Endpoint): Pick<Settings, 'endpoint' | 'fallback'> {
  return { endpoint, fallback: flag('fallback', options) && endpoint.way === 'quic' }
}

function trafficOf({ traffic, cellsPerSecond }: ClientOptions): Pick<Settings, 'traffic' | 'cellsPerSecond'> {
  return {
    traffic: choice('traffic', traffic, OPTIONS.traffic),
    cellsPerSecond: checkRate(cellsPerSecond, traffic),
  }
}

function accountSettings(options: ClientOptions, text: Lookup['text']): Pick<Settings, 'apiKey' | 'apiUrl'> {
  const apiKey = options.apiKey === null ? undefined : text('apiKey')
  const url = text('apiUrl')
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
  options: Pick<ClientOptions, 'account' | 'apiKey' | 'apiUrl' | 'ca' | 'endpoint'>,
  usualApiUrl: string,
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): AccountSettings {
  const { places, given, text, savedGrpcPort } = lookup(options, env)
  const apiUrl = parseApiUrl(text('apiUrl') ?? usualApiUrl)
  const apiKey = options.apiKey === null ? undefined : text('apiKey')
  if (apiKey !== undefined) checkApiKey(apiKey)
  const givenCa = text('ca')
  const ca = authorityOf(givenCa, isLoopback(hostOf(apiUrl)), places)
  return {
    apiUrl,
    apiKey,
    ca,
    givenCa,
    relay: text('endpoint'),
    relayName: relayNameOf({ given, text }),
    relayGrpcPort: savedGrpcPort(),
    places,
  }
}

/** The options of a call that needs an account, but no agent. */
export type AccountSessionOptions = Pick<
  ClientOptions,
  | 'account'
  | 'endpoint'
  | 'relayName'
  | 'apiKey'
  | 'apiUrl'
  | 'ca'
  | 'traffic'
  | 'cellsPerSecond'
  | 'fallback'
  | 'grpcPort'
  | 'connectTimeoutMs'
>

const ACCOUNT_SESSION_OPTIONS: { readonly [Name in keyof AccountSessionOptions]-?: true } = {
  account: true,
  endpoint: true,
  relayName: true,
  apiKey: true,
  apiUrl: true,
  ca: true,
  traffic: true,
  cellsPerSecond: true,
  fallback: true,
  grpcPort: true,
  connectTimeoutMs: true,
}

/** The settings of a session for an account rather than an agent. */
export type AccountSession = Pick<
  Settings,
  'endpoint' | 'fallback' | 'grpcPort' | 'ca' | 'traffic' | 'cellsPerSecond' | 'connectTimeoutMs'
> & { readonly apiKey: string; readonly apiUrl: string }

/**
 * The settings of a session for an account; `call` names the public call in errors.
 *
 * @throws {StaticError} `api_key_required` without an API key; see `resolveSettings`
 */
export function resolveAccountSession(
  call: string,
  options: AccountSessionOptions,
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the one place
): AccountSession {
  checkOptionNames(call, options, Object.keys(ACCOUNT_SESSION_OPTIONS))
  const { places, given, text, savedGrpcPort } = lookup(options, env)
  checkAccount(places, env)
  const endpoint = parseEndpoint(text('endpoint') ?? missing('endpoint'), { relayName: relayNameOf({ given, text }) })
  const { apiKey, apiUrl } = accountSettings(options, text)
  if (apiKey === undefined || apiUrl === undefined) throw StaticError.of('api_key_required')
  const isHere = isLocal(endpoint) && isLoopback(hostOf(apiUrl))
  return {
    ...wayOf(options, endpoint),
    ...trafficOf(options),
    grpcPort: checkPort(options.grpcPort ?? variableOf(OPTIONS.grpcPort, env)) ?? savedGrpcPort(),
    ca: authorityOf(text('ca'), isHere, places),
    connectTimeoutMs: checkTimeout(options.connectTimeoutMs),
    apiKey,
    apiUrl,
  }
}

/** The given CA, or for a local server the CA of `static up`. */
function authorityOf(given: string | undefined, isHere: boolean, { server }: UserPlaces): string | undefined {
  if (given !== undefined) return readAuthority(given)
  return isHere ? localAuthority(server) : undefined
}

function lookup(options: ClientOptions, env: Environment): Lookup {
  const account = checkText('account', options.account) ?? variableOf(OPTIONS.account, env)
  const places = userPlaces(env, account)
  const file = readCredentials(places.credentials)
  const given = (option: Named): string | undefined => {
    const { file: field } = OPTIONS[option]
    // Variables may be of another account, whose key must not go to this one's API.
    const isOfAccount = account !== undefined && field !== undefined
    return checkText(option, options[option]) ?? (isOfAccount ? undefined : variableOf(OPTIONS[option], env))
  }
  const text = (option: Named): string | undefined => {
    const { file: field } = OPTIONS[option]
    return given(option) ?? (field && file[field])
  }
  const savedGrpcPort = (): number | undefined =>
    given('endpoint') === undefined ? checkPort(file.relay_grpc_port) : undefined
  return { places, given, text, savedGrpcPort }
}

/** The name in the relay's certificate. The saved one is that of the saved relay. */
function relayNameOf({ given, text }: Pick<Lookup, 'given' | 'text'>): string | undefined {
  return given('endpoint') === undefined ? text('relayName') : given('relayName')
}

/** The system has no name for a current directory that is gone. */
function absolute(path: string): string {
  try {
    return resolve(path)
  } catch (cause) {
    const text = `\`dataDir\` is ${path}, but the current directory is gone. Pass an absolute path.`
    throw StaticError.of('invalid_request', text, { cause })
  }
}

/** An empty variable counts as unset, as in the shell. */
function variableOf({ variable }: ClientOption, env: Environment): string | undefined {
  return (variable && env[variable]) || undefined
}

function missing(option: Named): never {
  const saved = option === 'endpoint' ? ', or run `static signup` or `static login`, which save it' : ''
  throw invalid(`\`${option}\` is required. Set the option or ${OPTIONS[option].variable}${saved}.`)
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

function choice<Word extends string>(
  option: string,
  given: Word | undefined,
  { choices, usual }: ChoiceOption<Word>,
): Word {
  if (given === undefined) return usual
  if (choices.includes(given)) return given
  throw invalid(`\`${option}\` is ${shownValue(given)}. It must be one of ${choices.join(', ')}.`)
}

function integer(option: string, given: unknown, { least, most }: IntegerOption | DurationOption): number {
  if (typeof given === 'number' && Number.isInteger(given) && given >= least && given <= most) return given
  throw invalid(`\`${option}\` is ${shownValue(given)}. It must be an integer from ${least} to ${most}.`)
}

function checkRate(given: number | undefined, traffic: TrafficProfileName | undefined): number {
  if (given === undefined) return 0
  if (traffic !== 'strict') {
    throw invalid(`\`cellsPerSecond\` needs the traffic profile strict, but \`traffic\` is ${traffic ?? 'standard'}.`)
  }
  return integer('cellsPerSecond', given, OPTIONS.cellsPerSecond)
}

function checkPort(given: unknown): number | undefined {
  if (given === undefined) return undefined
  const port = typeof given === 'string' && /^\d{1,5}$/.test(given) ? Number(given) : given
  return integer('grpcPort', port, OPTIONS.grpcPort)
}

function checkRelayId(given: unknown): Uint8Array | undefined {
  if (given === undefined) return undefined
  const digits = typeof given === 'string' ? given.replaceAll(/[\s:]/g, '').toLowerCase() : ''
  if (/^[0-9a-f]{64}$/.test(digits)) return fromHex(digits)
  throw invalid(`\`acceptRelay\` is ${shownValue(given)}. It must be the id of the relay: 64 hexadecimal digits.`)
}

function checkTimeout(given: number = OPTIONS.connectTimeoutMs.usual): number {
  return integer('connectTimeoutMs', given, OPTIONS.connectTimeoutMs)
}

function flag(
  option: 'acceptRolledBack' | 'fallback' | 'visibleFiles' | 'wait',
  { [option]: given }: ClientOptions,
): boolean {
  if (given === undefined || typeof given === 'boolean') return given ?? OPTIONS[option].usual
  throw invalid(`\`${option}\` is ${shownValue(given)}. It must be true or false.`)
}

/** @internal */
export function checkHistory<Given extends HistoryOption | undefined>(given: Given): Given {
  const { days } = given || {}
  const isRule = Number.isInteger(days) && days !== undefined && days >= 1 && days <= MOST_HISTORY_DAYS
  if (given === undefined || given === false || (isRule && Object.keys(given).length === 1)) return given
  throw invalid(
    `\`history\` is ${shownValue(given)}. It must be { days } with a whole number from 1 to ${MOST_HISTORY_DAYS}, or false.`,
  )
}

function checkLogger(given: Logger | false | undefined): Logger | false | undefined {
  if (given === undefined || given === false || typeof given?.warn === 'function') return given
  throw invalid(`\`logger\` is ${shownValue(given)}. It must have a method \`warn\`, or be false.`)
}

function hostOf(url: string): string {
  return new URL(url).hostname.replaceAll(/[[\]]/g, '')
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
