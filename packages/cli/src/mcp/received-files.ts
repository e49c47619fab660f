/**
 * Payloads that are too long for a model or not text, as files that only the user can read. Their names are ours, never
 * those of a sender. With at most 256 files, each of one payload, they take at most 64 MiB; the oldest make room.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectories, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { Message } from '../agent/actions.ts'

/** More than one answer can name. */
const MOST_FILES = 256
const DIRECTORY = 'received'

/**
 * Writes a payload below the agent's directory and returns the path. A payload that is delivered again has the same.
 *
 * @throws {StaticError} `unavailable` if it cannot be written
 */
export function saveReceived(agentDirectory: string, message: Message, payload: Uint8Array, isText: boolean): string {
  const directory = join(agentDirectory, DIRECTORY)
  const { channel, index, message_id: id } = message
  // Senders choose message ids, but not the index: none can replace the file of another message.
  const path = join(directory, `${channel.replaceAll('/', '~')}-${index}-${id}.${isText ? 'txt' : 'bin'}`)
  try {
    makeDirectories(directory)
    replaceFile(path, payload, 0o600)
    removeOldest(directory)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw StaticError.of('unavailable', `The payload of message ${index} cannot be written: ${reason}.`, { cause })
  }
  return path
}

function removeOldest(directory: string): void {
  const names = readdirSync(directory)
  if (names.length <= MOST_FILES) return
  const files = names.map((name) => ({ path: join(directory, name), written: writtenAt(join(directory, name)) }))
  files.sort((one, other) => one.written - other.written)
  for (const { path } of files.slice(0, names.length - MOST_FILES)) rmSync(path, { force: true })
}

function writtenAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
