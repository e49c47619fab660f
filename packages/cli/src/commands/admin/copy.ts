/** `static admin copy`: moves the SQLite file of a stopped API or relay into PostgreSQL. */
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Command } from 'commander'
import { isPostgresUrl } from '@static/node/postgres-address'
import { StaticError, toHex } from '@static/protocol'
import { databaseOf, relayDatabaseOf } from '../../server/database.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'

interface CopyFlags {
  readonly from: string
  readonly to?: string
  readonly relayKey?: string
  readonly json?: boolean
}

const SQLITE_BUSY = 5
const count = new Intl.NumberFormat('en-US')

export function copyCommand(): Command {
  return new Command('copy')
    .description(
      'copy the SQLite database of a stopped API or relay into PostgreSQL; run it again if it was interrupted',
    )
    .requiredOption('--from <file>', 'api.sqlite or relay.sqlite of a server that is stopped')
    .option(
      '--to <url>',
      'postgres://… of an empty database; prefer STATIC_DATABASE for the API, STATIC_RELAY_DATABASE for a relay',
    )
    .option('--relay-key <file>', 'key for all nodes of the relay; created if missing (default: relay.key beside FILE)')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examples('STATIC_RELAY_DATABASE=postgres://… static admin copy --from /var/lib/static/relay.sqlite'),
    )
    .action(copy)
}

async function copy(flags: CopyFlags): Promise<void> {
  const path = resolve(flags.from)
  if (kindOf(path) === 'relay') await copyRelay(path, flags)
  else await copyApi(path, flags)
}

async function copyApi(path: string, { to, json }: CopyFlags): Promise<void> {
  const url = targetOf(databaseOf(to), 'STATIC_DATABASE')
  const { copyToPostgres } = await import('@static/api')
  let state = `Copying ${path}`
  const work = copyToPostgres({
    path,
    url,
    onProgress: ({ table, rows, totalRows }) => {
      state = `Copying ${table}: ${count.format(rows)} of ${count.format(totalRows)} rows`
    },
  })
  const { accounts, rows, isNew } = await withProgress(() => state, work)
  if (json) return printJson({ database: 'api', copied: isNew, accounts, rows })
  print(
    isNew
      ? `Copied ${count.format(accounts)} accounts (${count.format(rows)} rows) from ${path}.`
      : `${path} was already copied. Nothing has changed.`,
  )
  note('API nodes need master.key and relay.credential of the old server. Do not start an API on the old file again.')
}

async function copyRelay(path: string, { to, relayKey, json }: CopyFlags): Promise<void> {
  const url = targetOf(relayDatabaseOf(to), 'STATIC_RELAY_DATABASE')
  const keyFile = resolve(relayKey ?? join(dirname(path), 'relay.key'))
  const { copyToPostgres } = await import('@static/relay')
  let state = `Copying ${path}`
  const work = copyToPostgres({
    path,
    url,
    keyFile,
    onProgress: ({ channels, totalChannels, entries, rows }) => {
      const whole = `${count.format(channels)} of ${count.format(totalChannels)} channels`
      state = `Copying: ${whole}, ${count.format(entries)} messages, ${count.format(rows)} rows`
    },
  })
  const { relayId, progress } = await withProgress(() => state, work)
  if (json) {
    const { channels, entries, rows } = progress ?? {}
    const counts = progress === undefined ? {} : { channels, entries, rows }
    return printJson({
      database: 'relay',
      copied: progress !== undefined,
      relay_id: toHex(relayId),
      relay_key: keyFile,
      ...counts,
    })
  }
  print(
    progress
      ? `Copied ${count.format(progress.channels)} channels with ${count.format(progress.entries)} messages from ${path}.`
      : `${path} was already copied. Nothing has changed.`,
  )
  note(`relay nodes need ${keyFile} in their data directories. Do not start a relay on the old file again.`)
}

function targetOf(database: string | undefined, variable: string): string {
  if (database === undefined) {
    throw StaticError.of('invalid_request', `No database to copy to. Set ${variable}, or pass --to postgres://….`)
  }
  if (!isPostgresUrl(database)) {
    throw StaticError.of('invalid_request', 'The database to copy to is not PostgreSQL. Pass --to postgres://….')
  }
  return database
}

/** The server that a file belongs to. */
function kindOf(path: string): 'api' | 'relay' {
  if (!existsSync(path)) throw StaticError.of('not_found', `Database ${path} does not exist. Check --from.`)
  let file: DatabaseSync | undefined
  let tables: unknown[]
  try {
    file = new DatabaseSync(path)
    tables = file
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
      .all()
      .map((row) => row['name'])
  } catch (cause) {
    const { errcode = 0 } = cause as { errcode?: number }
    if (errcode % 256 === SQLITE_BUSY) {
      throw StaticError.of('store_locked', `${path} is in use. Stop the server that uses it.`, { cause })
    }
    throw StaticError.of('store_corrupt', `${path} is not a database, or is damaged.`, { cause })
  } finally {
    file?.close()
  }
  if (tables.includes('channels')) return 'relay'
  if (tables.includes('api_keys')) return 'api'
  throw StaticError.of('invalid_request', `${path} is not the database of an API or a relay. Check --from.`)
}
