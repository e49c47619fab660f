/**
 * The places of a user's files. A machine can have several accounts: the first without a name, others below `accounts`,
 * each with its own key and its own agents, so that agents of the same name never meet.
 */
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { StaticError } from '@static/protocol'

export type Environment = Readonly<Record<string, string | undefined>>

/** Paths of a user's files. */
export interface UserPlaces {
  /** The name of the account on this machine; undefined for the one without a name. */
  readonly account: string | undefined
  /** The per-user credentials file. */
  readonly credentials: string
  /** The data directory of `static up`. */
  readonly server: string
  /** The directory of the agents that the command line creates. */
  readonly agents: string
  /** The directory of the trust list. */
  readonly trust: string
  /** The directory of the keys of domains. */
  readonly domains: string
}

/** Lower case, because some file systems ignore it. */
const NAME = /^[a-z0-9][a-z0-9._@+-]{0,63}$/
const CREDENTIALS = 'credentials.json'
const AGENTS = 'agents'
/** Maximum number of accounts that an error names. */
const MOST_NAMES = 10

/**
 * The paths of the files of an account on this machine: the named one, else that in STATIC_ACCOUNT, else the one
 * without a name.
 *
 * @throws {StaticError} `invalid_request` if this cannot be a name
 */
export function userPlaces(
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the places depend on it
  named: string | undefined = env['STATIC_ACCOUNT'] || undefined,
): UserPlaces {
  const account = named === undefined ? undefined : checkAccountName(named)
  const { config, data } = roots(env)
  const own = account === undefined ? [] : ['accounts', account]
  return {
    account,
    credentials: join(config, ...own, CREDENTIALS),
    server: join(data, 'server'),
    agents: join(data, ...own, AGENTS),
    trust: join(data, ...own, 'trust'),
    domains: join(data, ...own, 'domains'),
  }
}

/**
 * Returns the name of an account on this machine if it is one.
 *
 * @throws {StaticError} `invalid_request`
 */
export function checkAccountName(name: string): string {
  if (NAME.test(name)) return name
  throw StaticError.of(
    'invalid_request',
    `${JSON.stringify(name)} cannot be the name of an account. It must have 1 to 64 characters of a-z, 0-9 and ._@+-, and begin with a letter or a digit.`,
  )
}

/** The named accounts on this machine: with a key, or with agents. */
export function namedAccounts(
  env: Environment = process.env, // oxlint-disable-line node/no-process-env -- the places depend on it
): readonly string[] {
  const { config, data } = roots(env)
  const below = (root: string, needed: string): string[] =>
    namesIn(join(root, 'accounts')).filter(
      (name) => NAME.test(name) && existsSync(join(root, 'accounts', name, needed)),
    )
  return [...new Set([...below(config, CREDENTIALS), ...below(data, AGENTS)])].sort()
}

/**
 * Checks that a named account is on this machine, because a mistyped name would make a guest of an agent.
 *
 * @throws {StaticError} `not_found`, which names those that are
 */
export function checkAccount({ account, credentials, agents }: UserPlaces, env?: Environment): void {
  if (account === undefined || existsSync(credentials) || existsSync(agents)) return
  const names = namedAccounts(env)
  const others =
    names.length === 0
      ? 'None has a name.'
      : `Those with a name: ${names.slice(0, MOST_NAMES).join(', ')}${names.length > MOST_NAMES ? ', …' : ''}.`
  throw StaticError.of(
    'not_found',
    `There is no account ${account} on this machine. ${others} \`static login --account ${account}\` or \`static signup --account ${account}\` adds it.`,
  )
}

function roots(env: Environment): { readonly config: string; readonly data: string } {
  return {
    config: join(userDirectory(env, 'XDG_CONFIG_HOME', '.config'), 'static'),
    data: join(userDirectory(env, 'XDG_DATA_HOME', '.local/share'), 'static'),
  }
}

/** An XDG base directory of the user. The XDG specification treats a relative path as unset. */
function userDirectory(env: Environment, variable: string, inHome: string): string {
  const set = env[variable] ?? ''
  if (isAbsolute(set)) return set
  const home = env['HOME'] ?? ''
  return join(isAbsolute(home) ? home : homedir(), inHome)
}

/** The names in a directory; none if it cannot be read. */
export function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch {
    // It does not exist, or is reported when it is used.
    return []
  }
}
