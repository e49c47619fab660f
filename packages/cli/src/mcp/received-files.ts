/**
 * Payloads that are too long for a model or not text, as files that only the user can read. The file names are chosen
 * here, never by a sender. There are at most 256 files with one payload each, so at most 64 MiB; the oldest are deleted
 * first.
 */
import { createHash } from 'node:crypto'
import { readdirSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectories, replaceFile } from '@static/node/files'
import type { Message } from '../agent/actions.ts'

/** A payload that can be written to a file. */
export interface ReceivedFile {
  readonly path: string
  /** Writes it. Throws system errors. */
  readonly write: () => void
}

/** More than one answer can name. */
const MOST_FILES = 256
const DIRECTORY = 'received'
/** A channel's name is too long for a file name. */
const HASH_CHARACTERS = 16
const MS = 1000

/** The file for a payload, below the agent's directory. A payload that is delivered again has the same file. */
export function receivedFile(
  agentDirectory: string,
  message: Message,
  payload: Uint8Array,
  isText: boolean,
): ReceivedFile {
  const directory = join(agentDirectory, DIRECTORY)
  const { channel, index, message_id: id } = message
  const hash = createHash('sha256').update(channel).digest('hex').slice(0, HASH_CHARACTERS)
  // Senders choose message ids but not the index, so none can replace the file of another message.
  const path = join(directory, `${hash}-${index}-${id}.${isText ? 'txt' : 'bin'}`)
  const write = (): void => {
    makeDirectories(directory)
    replaceFile(path, payload, 0o600)
    makeRoom(directory, path)
  }
  return { path, write }
}

/** Makes a file the newest, even if the clock was set back, and removes the oldest others. */
function makeRoom(directory: string, added: string): void {
  const others = readdirSync(directory)
    .map((name) => join(directory, name))
    .filter((path) => path !== added)
    .map((path) => ({ path, written: writtenAt(path) }))
    .sort((one, other) => one.written - other.written)
  const written = Math.max(Date.now(), Math.floor(others.at(-1)?.written ?? 0) + 1) / MS
  utimesSync(added, written, written)
  for (const { path } of others.slice(0, Math.max(0, others.length + 1 - MOST_FILES))) rmSync(path, { force: true })
}

function writtenAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
