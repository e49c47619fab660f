/**
 * Files that are either whole or absent, whatever crashes: written beside their place, synced, then put there in one
 * step. Does not protect against a disk that lies about fsync.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

const LEFTOVER = /^\..+\.[0-9a-f]{16}\.tmp$/
// A writer needs milliseconds; anything this old belongs to one that died.
const LEFTOVER_AGE_MS = 60_000

/** Whether a system call failed with the given code. */
export function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** Writes a file unless it exists; says whether it did. Of several writers at once exactly one gets true. */
export async function createFile(path: string, content: string | Uint8Array, mode: number): Promise<boolean> {
  // link() fails on an existing target, where rename() would replace it: the first one wins.
  return await place(path, content, mode, async (temporary) => {
    try {
      await link(temporary, path)
      return true
    } catch (error) {
      if (isErrno(error, 'EEXIST')) return false
      throw error
    }
  })
}

/** Writes a file in the place of the one that may be there. */
export async function replaceFile(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  await place(path, content, mode, async (temporary) => {
    await rename(temporary, path)
  })
}

/** Removes temporary files that a killed writer left; they can hold secrets. */
export async function sweepLeftovers(directory: string, now: number = Date.now()): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!LEFTOVER.test(name)) continue
    const path = join(directory, name)
    try {
      if (now - (await stat(path)).mtimeMs > LEFTOVER_AGE_MS) await rm(path, { force: true })
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error
    }
  }
}

async function place<T>(
  path: string,
  content: string | Uint8Array,
  mode: number,
  put: (temporary: string) => Promise<T>,
): Promise<T> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString('hex')}.tmp`)
  try {
    await using file = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
    await file.writeFile(content)
    // Not by open(): there the umask takes bits away.
    await file.chmod(mode)
    await file.sync()
    const result = await put(temporary)
    await syncDirectory(dirname(path))
    return result
  } finally {
    await rm(temporary, { force: true })
  }
}

async function syncDirectory(path: string): Promise<void> {
  await using directory: FileHandle = await open(path, constants.O_RDONLY)
  await directory.sync()
}
