/** The copy of the API's database file into PostgreSQL. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import pg from 'pg'
import { copyToPostgres, openStore } from '../src/index.ts'
import { makeDatabase } from './support.ts'

const source = await makeDatabase('sqlite')
const target = await makeDatabase('postgres')
after(async () => {
  await source.remove()
  await target.remove()
})
const path = source.database
const ACCOUNTS = 1201
const TABLES = `accounts api_keys sessions devices links audit deployment signing_keys usage_periods usage_days leases
  idempotency channel_deletions`.split(/\s+/)

await (await openStore(path)).close()
const file = new DatabaseSync(path)
// As a version left it whose rows had no checksums: the next that opens it adds them.
const COVERED = 'accounts api_keys sessions links signing_keys usage_periods leases idempotency'.split(' ')
for (const table of COVERED) file.exec(`alter table ${table} drop column checksum`)
file.exec(`drop table devices; drop table channel_deletions; alter table audit drop column channel;
  delete from kysely_migration where name > '0001_start'`)
for (let at = 0; at < ACCOUNTS; at++) {
  const id = `account-${String(at).padStart(5, '0')}`
  const email = at === 0 ? null : `${id}@example.com`
  file
    .prepare(`insert into accounts values (?, ?, ?, ?, 'hash', 'free', 'active', ?, 1)`)
    .run(id, `${id}@example.com`, email, at === 0 ? null : 'A näme', 1_700_000_000_000 + at)
}
const key = `insert into api_keys values ('k', 'account-00001', 'p', 'n', 'live', 'h', 1, null, null, 3, 4, 5)`
file.exec(`${key}; insert into usage_days values ('account-00001', 'live', '2026-11-16', 7);
  insert into signing_keys values (1, 'kid', 'sealed', 1, 2);
  insert into deployment values ('public_url', 'https://localhost:8443')`)
file.close()
await (await openStore(path)).close()

async function dump(): Promise<Map<string, unknown[]>> {
  const client = new pg.Client({ connectionString: target.database })
  await client.connect()
  const tables = new Map<string, unknown[]>()
  for (const table of TABLES) {
    const { rows } = await client.query<Record<string, unknown>>(`select * from ${table} order by 1, 2`)
    tables.set(table, rows.map(textOf))
  }
  await client.end()
  return tables
}

const textOf = (row: object): string => JSON.stringify(Object.values(row).map((value) => value && String(value)))

test('a database in use is not copied', async () => {
  const missing = `${path}.missing`
  await assert.rejects(copyToPostgres({ path: missing, url: target.database }), { code: 'not_found' })
  assert.equal(existsSync(missing), false)
  const store = await openStore(path)
  await assert.rejects(copyToPostgres({ path, url: target.database }), {
    code: 'store_locked',
    message: /is in use\. Stop the API that uses it/,
  })
  await store.close()
})

test('a damaged file is not copied', async () => {
  const damaged = `${path}.damaged`
  cpSync(path, damaged)
  const db = new DatabaseSync(damaged)
  db.exec(`pragma foreign_keys = off; delete from accounts where id = 'account-00001'`)
  db.close()
  await assert.rejects(copyToPostgres({ path: damaged, url: target.database }), {
    code: 'store_corrupt',
    message: /is damaged \(a row of \w+ refers to a row that does not exist\)\. Restore it from a backup/,
  })
})

test('a damaged row is not copied', async () => {
  const damaged = `${path}.flipped`
  cpSync(path, damaged)
  const db = new DatabaseSync(damaged)
  db.exec(`update accounts set status = 'suspended' where id = 'account-01200'`)
  db.close()
  await assert.rejects(copyToPostgres({ path: damaged, url: target.database }), {
    code: 'store_corrupt',
    message: /Row account-01200 of accounts is damaged/,
  })
  for (const [table, rows] of await dump()) assert.equal(rows.length, 0, table)
})

test('a copy that is interrupted leaves nothing; the next is whole, and is made once', async () => {
  const bytes = readFileSync(path)
  let batches = 0
  const interrupted = copyToPostgres({
    path,
    url: target.database,
    onProgress: () => {
      if (++batches === 3) throw new Error('killed')
    },
  })
  await assert.rejects(interrupted, /killed/)
  for (const [table, rows] of await dump()) assert.equal(rows.length, 0, table)

  const progress: number[] = []
  const copy = await copyToPostgres({ path, url: target.database, onProgress: ({ rows }) => progress.push(rows) })
  assert.deepEqual(copy, { accounts: ACCOUNTS, rows: ACCOUNTS + 4, isNew: true })
  assert.deepEqual(progress.slice(0, 3), [500, 1000, 1201])
  assert.deepEqual(readFileSync(path), bytes, 'the file is unchanged')
  const copied = await dump()
  const db = new DatabaseSync(path)
  for (const table of TABLES) {
    const rows = db.prepare(`select * from ${table} order by 1, 2`).all().map(textOf)
    const found = copied.get(table)?.filter((row) => !String(row).includes('copied_from'))
    assert.deepEqual(found, rows, table)
  }
  db.close()

  assert.equal((await copyToPostgres({ path, url: target.database })).isNew, false)
  assert.deepEqual(await dump(), copied)
  // The API has run since.
  const store = await openStore(path)
  await store.publicUrl.write('https://example.com')
  await store.close()
  await assert.rejects(copyToPostgres({ path, url: target.database }), {
    code: 'invalid_request',
    message: /already holds an API \(table accounts has rows\)/,
  })
})
