/**
 * The files that the application sends and saves. A file to send must be a regular one, and is read through one
 * descriptor. A file to save grows under the name `PATH.part` (0600), which no one else has made, and gets its name in one
 * step, without replacing another file. Does not protect against other programs of the same user.
 */
import { randomBytes } from 'node:crypto'
import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, link, lstat, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { StaticError } from '@static/protocol'
import { numberedName } from '../files/safe-name.ts'
import type { FileDisk, OpenedSource, OpenedTarget, Spool } from '../ports/index.ts'

const PART = '.part'
const PRIVATE = 0o600
/** Systems without these flags have no such files. */
const NO_FOLLOW: number = constants.O_NOFOLLOW ?? 0
/** Opening a pipe would wait for its other end. */
const NO_WAIT: number = constants.O_NONBLOCK ?? 0
const NEW: number = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | NO_FOLLOW
const EXISTING: number = constants.O_RDWR | NO_FOLLOW | NO_WAIT
const MOST_NUMBERS = 10_000
/** File systems without links, such as FAT. */
const NO_LINKS: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL'])

/** In `directory`, streams are kept, encrypted, for as long as they are being sent. */
export function makeFileDisk(directory: string): FileDisk {
  return {
    openSource,
    openSpool: () => openSpool(directory),
    chooseTarget,
    leadsTo: async (path, target) => {
      const wanted = resolve(path)
      return wanted === target || (wanted === dirname(target) && (await isDirectory(wanted)))
    },
    openTarget,
    reopenTarget,
    discard: async (target, identity) => {
      const part = target + PART
      const found = await lookUp(part)
      if (found && identityOf(found) === identity && !isBeingSaved(found)) await unlink(part).catch(() => {})
    },
  }
}

// ---- Reading ----

async function openSource(path: string): Promise<OpenedSource> {
  const absolute = resolve(path)
  const handle = await open(absolute, constants.O_RDONLY | NO_WAIT).catch((error: unknown) =>
    fail(error, absolute, 'read'),
  )
  try {
    const found = await handle.stat({ bigint: true })
    if (!found.isFile()) throw refused(`${absolute} is ${kindOf(found)}. Only regular files can be sent.`)
    return new Source(absolute, handle, found)
  } catch (error) {
    await handle.close()
    throw error
  }
}

class Source implements OpenedSource {
  readonly path: string
  readonly size: number
  readonly #handle: FileHandle
  readonly #opened: BigIntStats

  constructor(path: string, handle: FileHandle, opened: BigIntStats) {
    this.path = path
    this.size = Number(opened.size)
    this.#handle = handle
    this.#opened = opened
  }

  async read(target: Uint8Array, position: number): Promise<number> {
    try {
      return await readFully(this.#handle, target, position)
    } catch (error) {
      return fail(error, this.path, 'read')
    }
  }

  async isUnchanged(): Promise<boolean> {
    const { size, mtimeNs } = await this.#handle.stat({ bigint: true })
    return size === this.#opened.size && mtimeNs === this.#opened.mtimeNs
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }
}

async function openSpool(directory: string): Promise<Spool> {
  const path = join(directory, `.upload.${randomBytes(8).toString('hex')}.tmp`)
  const handle = await open(path, NEW, PRIVATE).catch((error: unknown) => fail(error, path, 'written'))
  // Without a name it vanishes with the process.
  await unlink(path)
  let end = 0
  return {
    append: async (bytes) => {
      await writeFully(handle, bytes, end).catch((error: unknown) => fail(error, path, 'written'))
      end += bytes.length
    },
    read: async (target, position) => {
      const read = await readFully(handle, target, position).catch((error: unknown) => fail(error, path, 'read'))
      if (read !== target.length) throw StaticError.of('internal_error', 'A part of a stream is missing in its spool.')
    },
    close: () => handle.close(),
  }
}

// ---- Saving ----

async function chooseTarget(path: string, safeName: string): Promise<string> {
  const absolute = resolve(path)
  if (!(await isDirectory(absolute))) {
    if (/[/\\]$/.test(path)) throw refused(`There is no directory ${absolute}.`)
    for (const name of [absolute, absolute + PART]) if (await lookUp(name)) throw taken(name)
    return absolute
  }
  for (let number = 1; number <= MOST_NUMBERS; number++) {
    const candidate = join(absolute, number === 1 ? safeName : numberedName(safeName, number))
    if (!(await lookUp(candidate)) && !(await lookUp(candidate + PART))) return candidate
  }
  throw refused(`${absolute} has too many files of the name ${safeName}. Choose another directory.`)
}

async function openTarget(path: string, isLeft: boolean): Promise<OpenedTarget | undefined> {
  if (await lookUp(path)) return undefined
  const part = path + PART
  const handle = (await openNew(part)) ?? (isLeft && (await removeLeftover(part)) ? await openNew(part) : undefined)
  if (!handle) return undefined
  return new Target(path, handle, await handle.stat({ bigint: true }), false)
}

/** Undefined if the name is taken: two files never share one on disk. */
async function openNew(part: string): Promise<FileHandle | undefined> {
  return await open(part, NEW, PRIVATE).catch((error: unknown) =>
    isCode(error, 'EEXIST') ? undefined : fail(error, part, 'written'),
  )
}

/**
 * Removes an empty file that a crash has left before anything was written. It is not used again: if another program is
 * about to write to it after all, that one notices that the name leads elsewhere.
 */
async function removeLeftover(part: string): Promise<boolean> {
  const found = await lookUp(part)
  if (!found || !isOwn(found) || found.size !== 0n || isBeingSaved(found)) return false
  await unlink(part).catch((error: unknown) => fail(error, part, 'written'))
  return true
}

async function reopenTarget(path: string, identity: string): Promise<OpenedTarget | undefined> {
  const part = path + PART
  const finished = await lookUp(path)
  if (finished?.isFile() === true && identityOf(finished) === identity) {
    const left = await lookUp(part)
    if (left && identityOf(left) === identity) await unlink(part)
    await syncDirectory(path)
    const handle = await open(path, constants.O_RDONLY | NO_FOLLOW).catch((error: unknown) => fail(error, path, 'read'))
    return new Target(path, handle, await handle.stat({ bigint: true }), true)
  }
  let handle: FileHandle
  try {
    handle = await open(part, EXISTING)
  } catch {
    return undefined
  }
  const found = await handle.stat({ bigint: true })
  const isMine = isOwn(found) && identityOf(found) === identity && !isBeingSaved(found)
  if (isMine) return new Target(path, handle, found, false)
  await handle.close()
  return undefined
}

/** The files that this process is saving. While one is open, no other file gets its number. */
const saving = new Set<string>()

function isBeingSaved(found: BigIntStats): boolean {
  return saving.has(onDisk(found))
}

function onDisk({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`
}

class Target implements OpenedTarget {
  readonly path: string
  readonly identity: string
  readonly isComplete: boolean
  readonly #handle: FileHandle
  readonly #onDisk: string

  constructor(path: string, handle: FileHandle, opened: BigIntStats, isComplete: boolean) {
    this.path = path
    this.identity = identityOf(opened)
    this.isComplete = isComplete
    this.#handle = handle
    this.#onDisk = onDisk(opened)
    saving.add(this.#onDisk)
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    await this.#guard(() => writeFully(this.#handle, bytes, position))
  }

  async sync(): Promise<void> {
    await this.#guard(() => this.#handle.sync())
  }

  async finish(size: number): Promise<void> {
    await this.#guard(() => this.#handle.truncate(size))
    await this.sync()
    const part = this.path + PART
    const found = await lookUp(part)
    if (!found || identityOf(found) !== this.identity) {
      throw refused(`Something has moved or replaced ${part} while the file was being saved. Save it again.`)
    }
    try {
      await giveName(part, this.path)
    } catch (error) {
      fail(error, this.path, 'written')
    }
    await syncDirectory(this.path)
  }

  async close(): Promise<void> {
    saving.delete(this.#onDisk)
    await this.#handle.close()
  }

  async #guard(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      fail(error, this.path + PART, 'written')
    }
  }
}

/** Renames a file, but not over another one: on a disk without links, as far as that can be seen before. */
async function giveName(part: string, path: string): Promise<void> {
  try {
    // A rename would replace the target.
    await link(part, path)
    await unlink(part)
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || !NO_LINKS.has(String(error.code))) throw error
    // An empty file that kept the name free of others would stay after a crash, and look like the whole one.
    if (await lookUp(path)) throw taken(path)
    await rename(part, path)
  }
}

/** Makes names in the directory of a file durable. */
async function syncDirectory(path: string): Promise<void> {
  let directory: FileHandle
  try {
    directory = await open(dirname(path), constants.O_RDONLY)
  } catch {
    // Windows cannot open directories, and needs no sync for them.
    return
  }
  try {
    await directory.sync()
  } catch (error) {
    if (!isCode(error, 'EINVAL') && !isCode(error, 'EPERM')) fail(error, path, 'written')
  } finally {
    await directory.close()
  }
}

// ---- Files ----

async function readFully(handle: FileHandle, target: Uint8Array, position: number): Promise<number> {
  let at = 0
  while (at < target.length) {
    const { bytesRead } = await handle.read(target, at, target.length - at, position + at)
    if (bytesRead === 0) break
    at += bytesRead
  }
  return at
}

async function writeFully(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, position + at)
    at += bytesWritten
  }
}

/** What a path is, without following a link at its end; undefined if nothing is there. */
async function lookUp(path: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    return isCode(error, 'ENOENT') ? undefined : fail(error, path, 'read')
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch {
    return false
  }
}

/** The file itself, whatever its name. The path is known as well, so the number of its disk, which may change, is not needed. */
function identityOf({ ino }: BigIntStats): string {
  return String(ino)
}

/** Whether a file can only be one that this user has made there. */
function isOwn(found: BigIntStats): boolean {
  const user = process.geteuid?.()
  return found.isFile() && found.nlink === 1n && (user === undefined || found.uid === BigInt(user))
}

function kindOf(found: BigIntStats): string {
  if (found.isDirectory()) return 'a directory'
  if (found.isFIFO()) return 'a pipe'
  return found.isSocket() ? 'a socket' : 'a device'
}

// ---- Errors ----

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

function taken(path: string): StaticError {
  return refused(`${path} already exists, and is not overwritten. Choose another path.`)
}

function refused(text: string): StaticError {
  return StaticError.of('invalid_request', text)
}

function fail(cause: unknown, path: string, done: 'read' | 'written'): never {
  if (cause instanceof StaticError) throw cause
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  throw StaticError.of('invalid_request', reasonOf(code, path, done), { cause })
}

function reasonOf(code: string, path: string, done: 'read' | 'written'): string {
  switch (code) {
    case 'ENOENT':
      return done === 'read' ? `There is no file ${path}.` : `There is no directory ${dirname(path)}.`
    case 'EACCES':
    case 'EPERM':
      return `${path} cannot be ${done}: permission denied.`
    case 'EEXIST':
      return `${path} already exists, and is not overwritten. Choose another path.`
    case 'ENOSPC':
    case 'EDQUOT':
      return `${path} cannot be written: the disk is full. Free some space and try again: saving continues where it stopped.`
    case 'ENXIO':
      return `${path} is a pipe or a socket. Only regular files can be sent.`
    case 'ENAMETOOLONG':
      return `The name of ${path} is too long.`
    default:
      return `${path} cannot be ${done}${code === '' ? '' : ` (${code})`}.`
  }
}
