/** An agent's directory as a whole: reading its identity, and deleting it. Needs no relay. */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { StaticError, toHex } from '@static/protocol'
import { fingerprintOf } from '../public/fingerprint.ts'
import { agentIdOf } from '../mls/index.ts'
import type { AgentId } from '../ports/index.ts'
import { connect, databaseFile, storeError } from './connection.ts'
import { listKeySlots, openDatabaseKey } from './keys/slots.ts'
import { KEY_BYTES, type KeySource } from './keys/sources.ts'
import { isOwnGitIgnore } from './private-files.ts'
import { hasSchema } from './schema.ts'
import { RELAY_FILE } from './relay-file.ts'
import { readRingFile, ringFile } from './ring-disk.ts'
import { ringSecret } from './ring/record.ts'
import { notedRing } from './ring/replay.ts'
import { readWithRing } from './rows/row-buffer.ts'
import { readIdentity } from './snapshot.ts'
import { openRows } from './rows/sql-rows.ts'
import type { ReadsOf } from './rows/table.ts'
import { RELAY } from './tables/agent-tables.ts'
import { CHANNEL } from './tables/channel-tables.ts'

/** Everything that an agent keeps in its directory; the temporary files of an interrupted write are `.NAME.*.tmp`. */
const FILES = [
  'agent.key',
  'keys.json',
  'agent.db',
  'agent.db-wal',
  'agent.db-journal',
  'agent.ring',
  'agent.opens',
  'agent.sock',
  RELAY_FILE,
  // Statements of domains about this agent.
  'statements.json',
  // For a model: unconfirmed notices, and a directory of payloads.
  'notices.json',
  'received',
]
/** Overwritten before they are deleted: the database cannot be read without them. */
const KEY_FILES = new Set(['agent.key', 'keys.json'])
const DELETED = /\.[0-9a-f]{16}\.deleted$/
const TEMPORARY = /^\.(.+)\.[0-9a-f]{16}\.tmp$/

/** The identity of an agent, and the channels and relays it knows. */
export interface AgentIdentity {
  readonly identity: string
  readonly agentId: AgentId
  readonly fingerprint: string
  /** The names of its channels. */
  readonly channels: readonly string[]
  readonly relays: readonly MetRelay[]
}

/** A relay that an agent has met. */
export interface MetRelay {
  /** The name in its certificate. */
  readonly name: string
  readonly relayId: string
  /** The gRPC port that it announced, if any. */
  readonly grpcPort: number | undefined
}

/**
 * Reads an agent's identity, channels and relays from its directory, without connecting. The agent must not be running.
 *
 * @throws {StaticError} `not_found` if there is no agent, `store_locked` if it is running, `store_key_wrong`,
 *   `store_corrupt`, `store_rolled_back`, `invalid_request` if another version of Static created it
 */
export async function readAgentIdentity(directory: string, key: KeySource = { type: 'file' }): Promise<AgentIdentity> {
  const place = resolve(directory)
  // Checked before reading the key, which would be created for a new agent.
  listKeySlots(place)
  const databaseKey = await openDatabaseKey(place, key)
  try {
    const database = connect(databaseFile(place), databaseKey)
    try {
      if (!hasSchema(database)) throw StaticError.of('not_found', `The agent in ${place} was never started.`)
      return readWithRing(database, readRingFile(ringFile(place), ringSecret(databaseKey), notedRing(database)), () =>
        describeAgent(openRows(database)),
      )
    } catch (error) {
      throw storeError(error, databaseFile(place))
    } finally {
      database.close()
    }
  } finally {
    databaseKey.fill(0)
  }
}

/**
 * Deletes an agent from this machine: its database, its keys and, if nothing else is in it, its directory. Needs no
 * key. Its channels are not left: the other members still see it, and a channel that it owns is left without an owner.
 *
 * @throws {StaticError} `not_found` if there is no agent, `store_locked` if it is running
 */
export function deleteAgent(directory: string): void {
  listKeySlots(directory)
  // For a link, its target.
  const place = realpathSync(directory)
  // Moved away first: a process that opens the directory from now on finds no agent, so it cannot take the lock in
  // between.
  const moved = join(dirname(place), `.${basename(place)}.${randomBytes(8).toString('hex')}.deleted`)
  finishDeletions(place)
  renameSync(place, moved)
  try {
    checkUnlocked(moved, place)
    deleteFiles(moved)
  } finally {
    // It holds files that are not the agent's, or the agent is running.
    if (existsSync(moved)) renameSync(moved, place)
  }
}

function describeAgent(rows: ReadsOf): AgentIdentity {
  const { identity, publicKey } = readIdentity(rows)
  const agentId = toHex(agentIdOf(publicKey))
  return {
    identity: Buffer.from(identity).toString(),
    agentId,
    fingerprint: fingerprintOf(agentId),
    channels: channelNames(rows),
    relays: rows(RELAY)
      .all()
      .map(({ relayName, relayId, grpcPort }) => ({
        name: relayName,
        relayId: toHex(relayId),
        grpcPort: grpcPort || undefined,
      })),
  }
}

function channelNames(rows: ReadsOf): readonly string[] {
  const channels = rows(CHANNEL).all()
  return channels.flatMap(({ name, state }) => (state === 'offered' ? [] : [name])).toSorted()
}

/** Completes deletions in this place that were interrupted because the process was killed. */
function finishDeletions(place: string): void {
  const parent = dirname(place)
  for (const name of readdirSync(parent)) {
    const isLeft = DELETED.test(name) && name.startsWith(`.${basename(place)}.`)
    if (isLeft) deleteFiles(join(parent, name))
  }
}

function deleteFiles(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (isOwnFile(name) || isOwnGitIgnore(directory, name)) deleteFile(join(directory, name), name)
  }
  if (readdirSync(directory).length === 0) rmdirSync(directory)
}

function isOwnFile(name: string): boolean {
  return FILES.includes(TEMPORARY.exec(name)?.[1] ?? name)
}

function deleteFile(path: string, name: string): void {
  if (KEY_FILES.has(TEMPORARY.exec(name)?.[1] ?? name)) overwrite(path)
  rmSync(path, { force: true, recursive: true })
}

function overwrite(path: string): void {
  const file = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW)
  try {
    writeSync(file, Buffer.alloc(fstatSync(file).size))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** A running agent holds the lock of its database. Opened with a wrong key, an unlocked one is merely unreadable. */
function checkUnlocked(directory: string, shown: string): void {
  if (!existsSync(databaseFile(directory))) return
  try {
    connect(databaseFile(directory), randomBytes(KEY_BYTES)).close()
  } catch (error) {
    if (!(error instanceof StaticError) || error.code !== 'store_locked') return
    throw StaticError.of('store_locked', `The agent in ${shown} is running. Stop it, then delete it.`, { cause: error })
  }
}
