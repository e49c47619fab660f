/** `static admin backup` and `static admin restore`. */
import { existsSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Argument, Command, Option } from 'commander'
import { StaticError } from '@static/protocol'
import { makeBackup } from '../../backup/make.ts'
import type { Manifest } from '../../backup/manifest.ts'
import { restoreBackup } from '../../backup/restore.ts'
import { defaultDataDirectory } from '../../server/data-dir.ts'
import { databaseOf } from '../../server/database.ts'
import { type FileStore, fileStore } from '../../server/file-store.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { addDatabaseFlags, type DatabaseFlags } from './database.ts'

const STORE = 'directory of files, if not in the data directory'

interface BackupFlags extends DatabaseFlags {
  readonly withFiles?: boolean
  readonly fileStore?: FileStore
}

type RestoreFlags = Omit<BackupFlags, 'database' | 'withFiles'>

export function backupCommand(): Command {
  return addDatabaseFlags(new Command('backup'))
    .description('back up databases and keys to a new directory, while the servers run')
    .addArgument(new Argument('<directory>', 'where to write the backup: a new or empty directory'))
    .option('--with-files', 'include the parts of files that members have not saved yet')
    .addOption(new Option('--file-store <dir>', STORE).argParser(fileStore))
    .addHelpText(
      'after',
      examples(
        'static admin backup /var/backups/static/monday',
        'static admin backup --with-files /mnt/backup/tuesday',
      ),
    )
    .action(backup)
}

export function restoreCommand(): Command {
  return new Command('restore')
    .description('verify a backup and restore it into an empty data directory')
    .addArgument(new Argument('<directory>', 'directory that `static admin backup` wrote'))
    .option('--data-dir <dir>', 'data directory to restore into', defaultDataDirectory())
    .addOption(new Option('--file-store <dir>', STORE).argParser(fileStore))
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static admin restore /var/backups/static/monday --data-dir /var/lib/static'))
    .action(restore)
}

async function backup(directory: string, flags: BackupFlags): Promise<void> {
  const target = resolve(directory)
  const manifest = await makeBackup({
    dataDir: flags.dataDir,
    database: databaseOf(flags.database),
    target,
    parts: flags.withFiles === true ? partsOf(flags) : undefined,
    copyApi: async (...paths) => (await import('@static/api')).copyDatabase(...paths),
    copyStoppedRelay: async (...paths) => (await import('@static/relay')).copyDatabase(...paths),
  })
  if (flags.json) return printJson({ directory: target, ...manifest })
  print(`Backed up ${sizeOf(manifest)} to ${target}.`)
  if (flags.withFiles !== true && hasFiles(flags.dataDir)) {
    note('without --with-files, members cannot fetch files after a restore that they have not saved.')
  }
  note('the backup contains secrets: anyone who can read it can sign tokens for every account.')
  if (manifest.api_database === 'postgres') note('the API uses PostgreSQL: back that up with `pg_dump`.')
}

async function restore(directory: string, flags: RestoreFlags): Promise<void> {
  const { dataDir, json } = flags
  const manifest = await restoreBackup(resolve(directory), dataDir, partsOf(flags))
  if (json) return printJson({ data_dir: dataDir, ...manifest })
  print(`Restored ${sizeOf(manifest)} from ${manifest.created_at} into ${dataDir}.`)
  if (manifest.api_database === 'postgres') note('the API used PostgreSQL: restore that with `pg_restore` or `psql`.')
}

function hasFiles(dataDir: string): boolean {
  const directory = join(dataDir, 'files')
  return existsSync(directory) && readdirSync(directory).length > 0
}

/** The directory of parts. */
function partsOf({ dataDir, fileStore: store = join(dataDir, 'files') }: Omit<BackupFlags, 'database'>): string {
  if (typeof store === 'string') return store
  throw StaticError.of('invalid_request', `${store.bucket} is a bucket. Copy it with the tools of its object store.`)
}

function sizeOf({ files }: Manifest): string {
  return `${files.length} files (${files.reduce((sum, { bytes }) => sum + bytes, 0)} bytes)`
}
