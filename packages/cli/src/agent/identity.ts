/** The default identity of an agent, and the directory of an identity. */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { createFile, makeDirectories, readPrivateFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'

const LONGEST_NAME = 200
const MAX_IDENTITY_BYTES = 255
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'
const RANDOM_LENGTH = 10

/**
 * The default identity: STATIC_IDENTITY, or the one stored for this user. It is created at random, because the relay
 * and all members learn it, and identities in a channel must be unique.
 *
 * @throws {StaticError} `invalid_request`, `store_permissions` if its file cannot be used
 */
export function defaultIdentity(): string {
  return process.env['STATIC_IDENTITY'] || keptIdentity()
}

function keptIdentity(): string {
  const { credentials, agents } = userPlaces()
  const path = join(dirname(credentials), 'identity')
  const kept = readIdentity(path)
  if (kept !== undefined) return kept
  // Agents used to be named like this. An existing agent remains the default.
  const named = `${userName()}@${hostname()}`
  const identity = existsSync(agentDirectory(agents, named)) ? named : randomIdentity()
  try {
    makeDirectories(dirname(path))
    // If several commands start at once, one of them decides.
    if (createFile(path, `${identity}\n`, 0o600)) return identity
  } catch (cause) {
    throw StaticError.of(
      'invalid_request',
      `${path} cannot be written, so there is no default identity. Name the agent with --as or STATIC_IDENTITY.`,
      { cause },
    )
  }
  return readIdentity(path) ?? identity
}

function readIdentity(path: string): string | undefined {
  const identity = readPrivateFile(path)?.toString().trim()
  if (identity === undefined) return undefined
  const length = Buffer.byteLength(identity)
  if (length > 0 && length <= MAX_IDENTITY_BYTES) return identity
  throw StaticError.of(
    'invalid_request',
    `${path} holds ${length} bytes instead of an identity of 1 to ${MAX_IDENTITY_BYTES}. Correct or remove it.`,
  )
}

function randomIdentity(): string {
  // 256 is a multiple of 32: every character is equally likely.
  const characters = [...randomBytes(RANDOM_LENGTH)].map((byte) => BASE32[byte % BASE32.length])
  return `agent-${characters.join('')}`
}

/** The directory of an agent: its identity, with bytes that are unsafe in a file name encoded as %XX. */
export function agentDirectory(agents: string, identity: string): string {
  const encoded = [...Buffer.from(identity)]
    .map((byte, at) => {
      const sign = String.fromCodePoint(byte)
      const plain = /[\w@+=,-]/.test(sign) || (sign === '.' && at > 0)
      return plain ? sign : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`
    })
    .join('')
  // Too long for a file system: use its hash. `%s` cannot collide with an encoded byte.
  if (encoded.length > LONGEST_NAME) {
    return join(agents, `%sha256-${createHash('sha256').update(identity).digest('hex')}`)
  }
  return join(agents, encoded)
}

/** The directories below `agents`, with their identities; a hashed name has none. */
export function agentsIn(
  agents: string,
): readonly { readonly identity: string | undefined; readonly directory: string }[] {
  if (!existsSync(agents)) return []
  return readdirSync(agents, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => ({ identity: identityIn(name), directory: join(agents, name) }))
    .sort((a, b) => (a.directory < b.directory ? -1 : 1))
}

function identityIn(name: string): string | undefined {
  if (name.startsWith('%sha256-')) return undefined
  const bytes = name.replaceAll(/%([0-9A-F]{2})/g, (_, digits: string) =>
    String.fromCodePoint(Number.parseInt(digits, 16)),
  )
  return Buffer.from(bytes, 'latin1').toString()
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // In a container the user id may have no name.
    return `user-${process.geteuid?.() ?? 0}`
  }
}
