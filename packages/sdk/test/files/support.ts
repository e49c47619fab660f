/** Directories and bytes for tests of files. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export const KIB = 1024
export const MIB: number = 1024 * KIB

export function directoryFor(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-files-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

export const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
