/** Copies and moves files durably: what is at the new place is on disk. */
import { closeSync, constants, copyFileSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { isErrno } from '@static/node/files'

/** Copies to a new file. */
export function copyFile(from: string, to: string, mode: number): void {
  copyFileSync(from, to, constants.COPYFILE_EXCL)
  const file = openSync(to, 'r+')
  try {
    fchmodSync(file, mode)
    fsyncSync(file)
  } finally {
    closeSync(file)
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

/** Makes the names in a directory durable. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
