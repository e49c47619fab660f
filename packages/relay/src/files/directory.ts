/**
 * Parts in a directory: `ab/KEY/PART`, where `ab` is how the key begins. After any crash a part is there completely or
 * not at all: it is written under a temporary name beside it, synced, then moved in one step. Nodes may share the
 * directory.
 */
import { randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isErrno } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { ListedParts, Parts } from '../ports.ts'
import { fullOr, isDiskNearlyFull, writeBody } from './disk.ts'

const PREFIX = /^[0-9a-f]{2}$/
const KEY = /^[0-9a-f]{32}$/
const READ_BYTES = 262_144

export class DirectoryParts implements Parts {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  async put(key: string, part: number, body: AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
    const directory = this.#of(key)
    await this.#make(directory)
    const temporary = join(directory, `.${part}.${randomBytes(8).toString('hex')}.tmp`)
    try {
      const file = await open(temporary, 'wx', 0o600)
      try {
        await writeBody(file, body, bytes)
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(temporary, join(directory, String(part)))
      await syncDirectory(directory)
    } catch (error) {
      await rm(temporary, { force: true })
      throw fullOr(error)
    }
  }

  async get(key: string, part: number, bytes: number): Promise<AsyncIterable<Uint8Array> | undefined> {
    let file: FileHandle
    try {
      file = await open(join(this.#of(key), String(part)))
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return undefined
      throw error
    }
    const found = await file.stat()
    // Also closes the file, when it was read or the reader gives up.
    if (found.isFile() && found.size === bytes) return file.createReadStream({ highWaterMark: READ_BYTES })
    await file.close()
    return undefined
  }

  async delete(key: string): Promise<void> {
    await rm(this.#of(key), { recursive: true, force: true })
  }

  async *list(after: string): AsyncIterable<ListedParts> {
    for (const prefix of await namesIn(this.#root, PREFIX)) {
      if (prefix < after.slice(0, 2)) continue
      for (const key of await namesIn(join(this.#root, prefix), KEY)) {
        if (key <= after) continue
        const found = await stat(join(this.#root, prefix, key)).catch(() => undefined)
        if (found) yield { key, changedAt: found.mtimeMs }
      }
    }
  }

  isNearlyFull(): Promise<boolean> {
    return isDiskNearlyFull(this.#root)
  }

  #of(key: string): string {
    // Keys are hashes: nothing that an agent chooses becomes part of a path.
    if (!KEY.test(key)) throw StaticError.of('internal_error', `${key} is not the key of a file.`)
    return join(this.#root, key.slice(0, 2), key)
  }

  /** Makes the directory of a file, and its name durable. */
  async #make(directory: string): Promise<void> {
    const made = await mkdir(directory, { recursive: true, mode: 0o700 })
    if (made === undefined) return
    await syncDirectory(dirname(directory))
    await syncDirectory(this.#root)
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

async function namesIn(path: string, pattern: RegExp): Promise<readonly string[]> {
  try {
    return (await readdir(path)).filter((name) => pattern.test(name)).sort()
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return []
    throw error
  }
}
