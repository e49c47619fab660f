/**
 * Makes a backup of a data directory while its servers run. The relay's database is copied first, so that the copy of
 * the API's database contains every account that owns a channel in it. The manifest is written last: without it, the
 * backup cannot be restored.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { checkAccess, createFile, isErrno, makeDirectories } from '@static/node/files'
import { isPostgresUrl } from '@static/node/postgres-address'
import { StaticError } from '@static/protocol'
import packageJson from '../../package.json' with { type: 'json' }
import { CANNOT_MAKE, INCOMPLETE } from '../server/data-dir.ts'
import { takeRelayCopy } from '../server/relay-control.ts'
import { moveFile } from './copy-file.ts'
import { backUpParts, PARTS_LIST } from './parts.ts'
import { type BackupFile, describeFiles, type Manifest, MANIFEST } from './manifest.ts'

/** The data to back up, and the target. */
export interface BackupOptions {
  readonly dataDir: string
  /** `postgres://…` or a SQLite file; `api.sqlite` in the data directory by default. */
  readonly database: string | undefined
  /** A directory that does not exist, or is empty. */
  readonly target: string
  /** The directory of the parts of files, if these are wanted. */
  readonly parts?: string | undefined
  /** How to copy the databases: the API's at any time, the relay's while no relay runs. */
  readonly copyApi: CopyDatabase
  readonly copyStoppedRelay: CopyDatabase
}

/** Copies a database to a new file. */
type CopyDatabase = (path: string, target: string) => Promise<void>

const DATABASES = /\.sqlite(-wal|-shm|-journal)?$/
const OTHERS = 0o044

/**
 * Makes a backup.
 *
 * Throws `not_found` if the data directory has no database, `invalid_request` if the target has files, `store_locked`
 * if a process holds the relay's database but does not answer, `unavailable` if a copy fails.
 */
export async function makeBackup(options: BackupOptions): Promise<Manifest> {
  const { dataDir, database, target, parts, copyApi } = options
  const isPostgres = database !== undefined && isPostgresUrl(database)
  const api = isPostgres ? undefined : (database ?? join(dataDir, 'api.sqlite'))
  const hasApi = api !== undefined && existsSync(api)
  const hasRelay = existsSync(join(dataDir, 'relay.sqlite'))
  if (!hasApi && !hasRelay && !isPostgres) {
    throw StaticError.of('not_found', `${dataDir} has no database. Pass --data-dir or --database.`)
  }
  makeTarget(target)
  const files: Pick<BackupFile, 'name' | 'mode'>[] = []
  if (hasRelay) {
    await copyRelay(options, join(target, 'relay.sqlite'))
    files.push({ name: 'relay.sqlite', mode: '600' })
  }
  if (hasApi) {
    await copyApi(api, join(target, 'api.sqlite'))
    files.push({ name: 'api.sqlite', mode: '600' })
  }
  for (const { name, mode } of smallFiles(dataDir)) {
    if (!createFile(join(target, name), readFileSync(join(dataDir, name)), 0o600)) throw occupied(target)
    files.push({ name, mode })
  }
  if (parts !== undefined) {
    backUpParts(parts, target)
    files.push({ name: PARTS_LIST, mode: '600' })
  }
  const apiDatabase = isPostgres ? 'postgres' : hasApi ? 'sqlite' : 'none'
  const manifest = await describeFiles(target, files, { version: packageJson.version, api_database: apiDatabase })
  if (!createFile(join(target, MANIFEST), `${JSON.stringify(manifest, undefined, 2)}\n`, 0o600)) throw occupied(target)
  return manifest
}

/** The running relay makes the copy. If none runs, no process holds the file, and this process copies it. */
async function copyRelay({ dataDir, copyStoppedRelay }: BackupOptions, target: string): Promise<void> {
  if (await takeRelayCopy(dataDir, (path) => moveFile(path, target, 0o600))) return
  await copyStoppedRelay(join(dataDir, 'relay.sqlite'), target)
}

/** Keys, credentials and certificates. */
function smallFiles(dataDir: string): Pick<BackupFile, 'name' | 'mode'>[] {
  return readdirSync(dataDir)
    .filter(
      (name) =>
        !name.startsWith('.') &&
        !DATABASES.test(name) &&
        name !== INCOMPLETE &&
        name !== MANIFEST &&
        name !== PARTS_LIST,
    )
    .flatMap((name) => {
      const found = statSync(join(dataDir, name), { throwIfNoEntry: false })
      if (!found?.isFile()) return []
      return [{ name, mode: (found.mode & OTHERS) === 0 ? '600' : '644' } as const]
    })
}

function makeTarget(target: string): void {
  try {
    makeDirectories(target)
  } catch (error) {
    if (!CANNOT_MAKE.some((code) => isErrno(error, code))) throw error
    const text = `Cannot create the directory ${target}. Choose one that this user can create.`
    throw StaticError.of('invalid_request', text, { cause: error })
  }
  const found = statSync(target)
  if (!found.isDirectory() || readdirSync(target).length > 0) throw occupied(target)
  checkAccess(target, found, { refused: 0o022, how: 'writable', chmod: '700' })
}

function occupied(target: string): StaticError {
  return StaticError.of(
    'invalid_request',
    `${target} is not an empty directory. A backup never overwrites files: choose a new directory.`,
  )
}
