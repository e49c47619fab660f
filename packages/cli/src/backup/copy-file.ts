/** Copies and moves files durably: the new file is on disk. */
import { closeSync, fchmodSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isErrno, syncDirectory } from '@static/node/files'

const CHUNK_BYTES = 1024 * 1024

/** Copies to a new file. */
export function copyFile(from: string, to: string, mode: number): void {
  const source = openSync(from, 'r')
  try {
    // Not with copyFileSync, which gives the copy the mode of the original: others might read it meanwhile.
    const file = openSync(to, 'wx', 0o600)
    try {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
      for (;;) {
        const length = readSync(source, chunk)
        if (length === 0) break
        writeFileSync(file, chunk.subarray(0, length))
      }
      fchmodSync(file, mode)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  } finally {
    closeSync(source)
  }
  syncDirectory(dirname(to))
}

/** Moves a file, to another file system if necessary. */
export function moveFile(from: string, to: string, mode: number): void {
  try {
    renameSync(from, to)
    syncDirectory(dirname(to))
  } catch (error) {
    if (!isErrno(error, 'EXDEV')) throw error
    copyFile(from, to, mode)
    rmSync(from)
  }
}
