/** The folder for the temporary files of a test run. */
import { spawnSync } from 'node:child_process'
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Most space that the files need, in bytes. */
const ENOUGH = 4 * 1024 ** 3

/**
 * Makes the folder in the first of these parents that has room, or else in the last, and deletes what killed runs of this
 * user have left there. Other users of the machine have theirs in the same parents.
 */
export function makeTemporary(parents: readonly string[]): string {
  for (const parent of parents) {
    mkdirSync(parent, { recursive: true })
    deleteLeftovers(parent)
    const directory = mkdtempSync(join(parent, `static-test-${process.pid}-`))
    // The postgres user must be able to access it.
    chmodSync(directory, 0o755)
    if (parent === parents.at(-1) || hasRoom(directory)) return directory
    rmSync(directory, { recursive: true })
  }
  throw new Error('There is no parent for temporary files.')
}

function deleteLeftovers(parent: string): void {
  for (const name of readdirSync(parent)) {
    const [, pid] = /^static-test-(\d+)(?:-\w+)?$/.exec(name) ?? []
    if (pid === undefined || isRunning(Number(pid))) continue
    const path = join(parent, name)
    if (lstatSync(path, { throwIfNoEntry: false })?.uid === process.geteuid?.())
      rmSync(path, { recursive: true, force: true })
  }
}

function hasRoom(directory: string): boolean {
  const { bavail, bsize } = statfsSync(directory)
  if (bavail * bsize < ENOUGH) return false
  // The tests install and run programs there, which some machines forbid (noexec).
  const probe = join(directory, 'probe')
  writeFileSync(probe, '#!/bin/sh\n', { mode: 0o700 })
  const { status } = spawnSync(probe)
  rmSync(probe)
  return status === 0
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
