/**
 * The parts of files in a backup: a copy of their directory, and `files.sha256` with a line for each part, as `sha256sum`
 * writes them. They are copied after the relay's database, so every part that the copy of the database knows is here,
 * unless its file has ended meanwhile; the relay deletes those that the database does not know.
 */
import { createHash } from 'node:crypto'
import {
  closeSync,
  createReadStream,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { digestFile } from '@static/node/digest'
import { isErrno, makeDirectories, syncDirectory } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** The list of parts in a backup, and the directory of parts beside it. */
export const PARTS_LIST = 'files.sha256'
const PARTS = 'files'
const LINE = /^([0-9a-f]{64}) {2}files\/([0-9a-f]{2}\/[0-9a-f]{32}\/[0-9]{1,4})$/
const PREFIX = /^[0-9a-f]{2}$/
const KEY = /^[0-9a-f]{32}$/
const PART = /^[0-9]{1,4}$/
const CHUNK_BYTES = 1024 * 1024

/** How many parts were copied. */
export interface CopiedParts {
  readonly parts: number
  readonly bytes: number
}

/** Copies the parts in a directory into a backup, and writes their list. */
export function backUpParts(directory: string, backup: string): CopiedParts {
  const list = openSync(join(backup, PARTS_LIST), 'wx', 0o600)
  let [parts, bytes] = [0, 0]
  try {
    for (const prefix of namesIn(directory, PREFIX)) {
      for (const key of namesIn(join(directory, prefix), KEY)) {
        const target = join(backup, PARTS, prefix, key)
        for (const part of namesIn(join(directory, prefix, key), PART)) {
          const copied = copyPart(join(directory, prefix, key, part), target, part)
          if (!copied) continue
          writeSync(list, `${copied.sha256}  ${PARTS}/${prefix}/${key}/${part}\n`)
          parts++
          bytes += copied.bytes
        }
        if (existsSync(target)) syncDirectory(target)
      }
      if (existsSync(join(backup, PARTS, prefix))) syncDirectory(join(backup, PARTS, prefix))
    }
    if (existsSync(join(backup, PARTS))) syncDirectory(join(backup, PARTS))
    fsyncSync(list)
  } finally {
    closeSync(list)
  }
  return { parts, bytes }
}

/** Compares every part with the list. Throws `store_corrupt` if one is missing or damaged. */
export async function verifyParts(backup: string): Promise<void> {
  for await (const { sha256, name } of listedIn(backup)) {
    const path = join(backup, PARTS, name)
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) throw damaged(`${path} is missing`)
    if ((await digestFile(path)).sha256 !== sha256) throw damaged(`${path} does not match ${PARTS_LIST}`)
  }
}

/** Throws `invalid_request` if a directory for parts has something in it. */
export function checkNoParts(directory: string): void {
  if (!existsSync(directory) || readdirSync(directory).length === 0) return
  throw StaticError.of(
    'invalid_request',
    `The directory of files ${directory} is not empty. Pass another --file-store.`,
  )
}

/** Copies the parts of a verified backup into a directory. */
export async function restoreParts(backup: string, directory: string): Promise<void> {
  const changed = new Set([directory])
  makeDirectories(directory)
  for await (const { name } of listedIn(backup)) {
    const [prefix = '', key = '', part = ''] = name.split('/')
    const target = join(directory, prefix, key)
    if (!copyPart(join(backup, PARTS, name), target, part)) throw damaged(`${name} is missing`)
    changed.add(join(directory, prefix)).add(target)
  }
  for (const one of changed) syncDirectory(one)
}

async function* listedIn(backup: string): AsyncIterable<{ readonly sha256: string; readonly name: string }> {
  const path = join(backup, PARTS_LIST)
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    const [, sha256, name] = LINE.exec(line) ?? []
    if (sha256 === undefined || name === undefined) throw damaged(`${path} is not a list of parts`)
    yield { sha256, name }
  }
}

/** Copies one part; undefined if its file has ended meanwhile. */
function copyPart(
  from: string,
  directory: string,
  part: string,
): { readonly bytes: number; readonly sha256: string } | undefined {
  let source: number
  try {
    source = openSync(from, 'r')
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined
    throw error
  }
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const target = openSync(join(directory, part), 'wx', 0o600)
    try {
      const hash = createHash('sha256')
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
      let bytes = 0
      for (;;) {
        const length = readSync(source, chunk)
        if (length === 0) break
        hash.update(chunk.subarray(0, length))
        for (let at = 0; at < length;) at += writeSync(target, chunk, at, length - at)
        bytes += length
      }
      fsyncSync(target)
      return { bytes, sha256: hash.digest('hex') }
    } finally {
      closeSync(target)
    }
  } finally {
    closeSync(source)
  }
}

function namesIn(path: string, pattern: RegExp): readonly string[] {
  try {
    return readdirSync(path).filter((name) => pattern.test(name))
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return []
    throw error
  }
}

function damaged(problem: string): StaticError {
  return StaticError.of('store_corrupt', `The backup is damaged: ${problem}. Use another backup.`)
}
