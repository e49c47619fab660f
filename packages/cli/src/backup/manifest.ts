/**
 * The manifest of a backup: its files with their checksums. It is written last, so a directory without one is an
 * interrupted backup. The checksums detect damage, not forgery: anyone who can write the backup can write the manifest.
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { digestFile } from '@static/node/digest'
import { isErrno } from '@static/node/files'
import { StaticError } from '@static/protocol'

export const MANIFEST = 'manifest.json'
const FORMAT = 1
const NAME = /^[\w-][\w.-]{0,127}$/

export interface BackupFile {
  readonly name: string
  readonly bytes: number
  /** In hexadecimal. */
  readonly sha256: string
  /** Its mode in the data directory: `600` or `644`. */
  readonly mode: '600' | '644'
}

/** The content of a backup. */
export interface Manifest {
  /** The version of the backup format; increases when older programs cannot restore it. */
  readonly format: typeof FORMAT
  /** The version of the program that made it. */
  readonly version: string
  readonly created_at: string
  /** Where the API kept its data: in the backup's `api.sqlite`, or outside of it. */
  readonly api_database: 'sqlite' | 'postgres' | 'none'
  readonly files: readonly BackupFile[]
}

/** Creates the manifest for files that are already in a directory. */
export async function describeFiles(
  directory: string,
  files: readonly Pick<BackupFile, 'name' | 'mode'>[],
  about: Pick<Manifest, 'version' | 'api_database'>,
): Promise<Manifest> {
  const described: BackupFile[] = []
  for (const { name, mode } of files) described.push({ name, mode, ...(await digestFile(join(directory, name))) })
  return { format: FORMAT, ...about, created_at: new Date().toISOString(), files: described }
}

/**
 * Reads the manifest of a backup and compares every file with it.
 *
 * Throws `not_found` if there is no complete backup, `invalid_request` if a newer version made it, `store_corrupt` if a
 * file is missing or damaged.
 */
export async function verifyBackup(directory: string): Promise<Manifest> {
  const manifest = readManifest(directory)
  for (const { name, bytes, sha256 } of manifest.files) {
    const path = join(directory, name)
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) throw damaged(`${path} is missing`)
    const found = await digestFile(path)
    if (found.bytes !== bytes || found.sha256 !== sha256) throw damaged(`${path} does not match the manifest`)
  }
  return manifest
}

function readManifest(directory: string): Manifest {
  const path = join(directory, MANIFEST)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if (!isErrno(cause, 'ENOENT') && !isErrno(cause, 'ENOTDIR')) throw cause
    const problem = `${directory} is not a complete backup: it has no ${MANIFEST}, which is written last.`
    throw StaticError.of('not_found', `${problem} Use another backup.`, { cause })
  }
  let manifest: unknown
  try {
    manifest = JSON.parse(text)
  } catch {
    throw damaged(`${path} is not JSON`)
  }
  const { format } = (manifest ?? {}) as Partial<Manifest>
  if (typeof format === 'number' && format > FORMAT) {
    throw StaticError.of(
      'invalid_request',
      `A newer version of Static made ${directory}. Restore it with that version.`,
    )
  }
  if (!isManifest(manifest)) throw damaged(`${path} is not a manifest`)
  return manifest
}

function isManifest(value: unknown): value is Manifest {
  const { format, files } = (value ?? {}) as Partial<Record<keyof Manifest, unknown>>
  if (format !== FORMAT || !Array.isArray(files)) return false
  const names = new Set<unknown>()
  return files.every((file: Partial<Record<keyof BackupFile, unknown>> | null) => {
    const { name, bytes, sha256, mode } = file ?? {}
    const isNew = !names.has(name)
    names.add(name)
    return (
      isNew &&
      typeof name === 'string' &&
      NAME.test(name) &&
      Number.isSafeInteger(bytes) &&
      typeof sha256 === 'string' &&
      (mode === '600' || mode === '644')
    )
  })
}

function damaged(problem: string): StaticError {
  return StaticError.of('store_corrupt', `The backup is damaged: ${problem}. Use another backup.`)
}
