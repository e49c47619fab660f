/** The file of an agent's ring (ring/file.ts) in Node. */
import { closeSync, constants, fdatasyncSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { SecretKey } from '#platform/crypto'
import { checkPrivateFile, isErrno, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { diskFailure } from './disk-error.ts'
import { newRing, readRingDisk, type RingDisk } from './ring/file.ts'
import { type NotedRing, type RingContent, ringFromAnotherTime } from './ring/replay.ts'

/** Path of the ring in an agent's directory. */
export function ringFile(directory: string): string {
  return join(directory, 'agent.ring')
}

/** Creates the ring of a new agent, replacing any other. Returns the data that the database stores about it. */
export function createRing(path: string, secret: SecretKey, size: number): NotedRing {
  const { bytes, noted } = newRing(secret, size)
  replaceFile(path, bytes, 0o600)
  return noted
}

/**
 * Reads the ring recorded in an agent's database. The database must be locked.
 *
 * Throws `store_rolled_back`, `store_corrupt`, `store_permissions`, or `invalid_request` if it is not a regular file.
 */
export function readRingFile(path: string, secret: SecretKey, noted: NotedRing): RingContent {
  const disk = openRingDisk(path)
  try {
    return readRingDisk(disk, secret, noted)
  } finally {
    disk.close()
  }
}

/** Opens the file of a ring. Throws as `readRingFile` does. */
export function openRingDisk(path: string): RingDisk {
  const file = openRing(path)
  return {
    path,
    size: fstatSync(file).size,
    read: (bytes) => {
      for (let at = 0; at < bytes.length;) {
        const count = readSync(file, bytes, at, bytes.length - at, at)
        if (count === 0) break
        at += count
      }
    },
    write: (bytes, place) => {
      const written = writeSync(file, bytes, 0, bytes.length, place)
      if (written !== bytes.length) throw new Error(`only ${written} of ${bytes.length} bytes were written`)
    },
    flush: () => fdatasyncSync(file),
    close: () => closeSync(file),
    failure: (error) => {
      const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error)
      return new StaticError('store_failed', diskFailure(reason, path), { cause: error })
    },
  }
}

function openRing(path: string): number {
  let file: number
  try {
    // Without O_NONBLOCK, a FIFO at this path would block forever.
    file = openSync(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch (error) {
    if (isErrno(error, 'ENOENT')) throw ringFromAnotherTime(path)
    // Its records are overwritten in place, which must not happen to a file elsewhere.
    if (isErrno(error, 'ELOOP')) throw new StaticError('invalid_request', `${path} is a symbolic link, not a file.`)
    throw error
  }
  try {
    checkPrivateFile(path, fstatSync(file))
    return file
  } catch (error) {
    closeSync(file)
    throw error
  }
}
