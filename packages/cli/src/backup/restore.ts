/**
 * Restores a backup into an empty data directory. A marker stays in the directory until everything is in place, and no
 * server starts while it is there: otherwise, after a crash in between, a relay would create a new database in place of
 * the copy.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createFile, syncDirectory } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { ensurePrivateDirectory, INCOMPLETE } from '../server/data-dir.ts'
import { copyFile } from './copy-file.ts'
import { type Manifest, verifyBackup } from './manifest.ts'
import { checkNoParts, PARTS_LIST, restoreParts, verifyParts } from './parts.ts'

/**
 * Verifies the backup, then restores it.
 *
 * Throws as `verifyBackup`, and `invalid_request` if the data directory, or that of parts, is not empty.
 */
export async function restoreBackup(
  backup: string,
  dataDir: string,
  partsDir: string = join(dataDir, 'files'),
): Promise<Manifest> {
  const manifest = await verifyBackup(backup)
  const hasParts = manifest.files.some(({ name }) => name === PARTS_LIST)
  if (hasParts) await verifyParts(backup)
  // No backup contains dot files: if the directory is the user's home, this command's own code cache may be there.
  if (existsSync(dataDir) && readdirSync(dataDir).some((name) => !name.startsWith('.'))) {
    const advice = 'Stop the server and move the files away, or pass another --data-dir.'
    throw StaticError.of('invalid_request', `The data directory ${dataDir} is not empty. ${advice}`)
  }
  if (hasParts) checkNoParts(partsDir)
  ensurePrivateDirectory(dataDir)
  const marker = join(dataDir, INCOMPLETE)
  if (!createFile(marker, '', 0o600))
    throw StaticError.of('store_locked', `Another restore into ${dataDir} is running.`)
  if (hasParts) await restoreParts(backup, partsDir)
  for (const { name, mode } of manifest.files) {
    if (name === PARTS_LIST) continue
    copyFile(join(backup, name), join(dataDir, name), Number.parseInt(mode, 8))
  }
  rmSync(marker)
  syncDirectory(dataDir)
  return manifest
}
