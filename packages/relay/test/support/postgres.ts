/** Databases in the PostgreSQL server of the test run, and stores in them. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import pg from 'pg'
import type { Retention, StoreListener } from '../../src/ports.ts'
import { type PostgresStore, type PostgresStoreOptions, openPostgresStore } from '../../src/store/postgres/store.ts'

/** A database with the key of its deployment. */
export interface Scratch {
  readonly url: string
  readonly keyFile: string
  /** Runs SQL as its owner. */
  query(sql: string): Promise<unknown[][]>
  remove(): Promise<void>
}

/** A new database. */
export async function makeScratch(): Promise<Scratch> {
  const admin = process.env['STATIC_TEST_POSTGRES']
  if (admin === undefined) throw new Error('STATIC_TEST_POSTGRES is not set. Run the tests with `npm test`.')
  const name = `relay_${randomBytes(6).toString('hex')}`
  await ask(admin, `create database ${name}`)
  const address = new URL(admin)
  address.pathname = `/${name}`
  const directory = mkdtempSync(join(tmpdir(), 'static-relay-key-'))
  return {
    url: address.href,
    keyFile: join(directory, 'relay.key'),
    query: (sql) => ask(address.href, sql),
    async remove() {
      await ask(admin, `drop database ${name} with (force)`)
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Runs SQL on a connection of its own. */
export async function ask(url: string, sql: string): Promise<unknown[][]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<unknown[]>({ text: sql, rowMode: 'array' })).rows
  } finally {
    await client.end()
  }
}

const TABLES = `channels, accounts, foundings, dropped, members, senders, slots, turns, entries, ids, welcomes,
  group_infos, invites, files, file_rooms, joins, nonces, notices`
/** A store makes the tables, and not every test opens one. */
const EMPTY = `set search_path = static_relay; do $$ begin
  if to_regclass('channels') is not null then truncate ${TABLES} restart identity; end if;
end $$`
let shared: Promise<Scratch> | undefined
after(async () => (await shared)?.remove())

/** The database of this test file, emptied. */
export async function emptyScratch(): Promise<Scratch> {
  const isNew = shared === undefined
  shared ??= makeScratch()
  const scratch = await shared
  if (!isNew) await scratch.query(EMPTY)
  return scratch
}

/** A store in a database. */
export function openScratch(
  { url, keyFile }: Pick<Scratch, 'url' | 'keyFile'>,
  retention: Retention,
  listener: StoreListener,
  options: Partial<PostgresStoreOptions> = {},
): Promise<PostgresStore> {
  return openPostgresStore({ url, keyFile, retention, ...options }, listener)
}
