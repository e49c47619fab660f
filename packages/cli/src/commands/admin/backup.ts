/** `static admin backup` and `static admin restore`. */
import { resolve } from 'node:path'
import { Argument, Command } from 'commander'
import { makeBackup } from '../../backup/make.ts'
import type { Manifest } from '../../backup/manifest.ts'
import { restoreBackup } from '../../backup/restore.ts'
import { defaultDataDirectory } from '../../server/data-dir.ts'
import { databaseOf } from '../../server/database.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { addDatabaseFlags, type DatabaseFlags } from './database.ts'

type RestoreFlags = Omit<DatabaseFlags, 'database'>

export function backupCommand(): Command {
  return addDatabaseFlags(new Command('backup'))
    .description('back up databases and keys to a new directory, while the servers run')
    .addArgument(new Argument('<directory>', 'where to write the backup: a new or empty directory'))
    .addHelpText('after', examples('static admin backup /var/backups/static/monday'))
    .action(backup)
}

export function restoreCommand(): Command {
  return new Command('restore')
    .description('verify a backup and restore it into an empty data directory')
    .addArgument(new Argument('<directory>', 'directory that `static admin backup` wrote'))
    .option('--data-dir <dir>', 'data directory to restore into', defaultDataDirectory())
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static admin restore /var/backups/static/monday --data-dir /var/lib/static'))
    .action(restore)
}

async function backup(directory: string, flags: DatabaseFlags): Promise<void> {
  const target = resolve(directory)
  const manifest = await makeBackup({
    dataDir: flags.dataDir,
    database: databaseOf(flags.database),
    target,
    copyApi: async (...paths) => (await import('@static/api')).copyDatabase(...paths),
    copyStoppedRelay: async (...paths) => (await import('@static/relay')).copyDatabase(...paths),
  })
  if (flags.json) return printJson({ directory: target, ...manifest })
  print(`Backed up ${sizeOf(manifest)} to ${target}.`)
  note('the backup contains secrets: anyone who can read it can sign tokens for every account.')
  if (manifest.api_database === 'postgres') note('the API uses PostgreSQL: back that up with `pg_dump`.')
}

async function restore(directory: string, { dataDir, json }: RestoreFlags): Promise<void> {
  const manifest = await restoreBackup(resolve(directory), dataDir)
  if (json) return printJson({ data_dir: dataDir, ...manifest })
  print(`Restored ${sizeOf(manifest)} from ${manifest.created_at} into ${dataDir}.`)
  if (manifest.api_database === 'postgres') note('the API used PostgreSQL: restore that with `pg_restore` or `psql`.')
}

function sizeOf({ files }: Manifest): string {
  return `${files.length} files (${files.reduce((sum, { bytes }) => sum + bytes, 0)} bytes)`
}
