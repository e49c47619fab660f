import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { mountSmallDisk, noSmallDisk } from '@static/testkit/full-disk'
import { isUnavailable } from '../src/db/unavailable.ts'
import { openStore } from '../src/index.ts'
import { assertProblem, makeDatabase, startBench } from './support.ts'

/** Not the whole package, which takes twice as long to load. */
const STORE = join(import.meta.dirname, '../src/db/store.ts')
/** Opens a database; dies before the given statement, or says how many there were. */
const OPEN = `
import { DatabaseSync, StatementSync } from 'node:sqlite'
const [, database, last] = process.argv
let count = 0
for (const [prototype, name] of [[DatabaseSync.prototype, 'exec'], [StatementSync.prototype, 'run'], [StatementSync.prototype, 'all']]) {
  const real = prototype[name]
  prototype[name] = function (...args) {
    if (++count === Number(last)) process.kill(process.pid, 'SIGKILL')
    return real.apply(this, args)
  }
}
const { openStore } = await import(${JSON.stringify(STORE)})
await openStore(database)
process.send(count)
`
/** All with STATIC_CRASH=all. */
const DEATHS = process.env['STATIC_CRASH'] === 'all' ? Infinity : 6

/** A process that opens a database for the first time. */
function opener(database: string, last = 0): ReturnType<typeof spawn> {
  const words = ['--input-type=module', '-e', OPEN, database, String(last)]
  return spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
}

/** Opens a new database and checks that it is as it should be whenever the opener died. */
async function openAfterDeath(last: number): Promise<void> {
  const { database, remove } = await makeDatabase('sqlite')
  const [, signal] = await once(opener(database, last), 'exit')
  assert.equal(signal, 'SIGKILL', `before statement ${last}`)
  const store = await openStore(database)
  await store.ping()
  assert.equal(await store.accounts.byId('nobody'), undefined)
  await store.close()
  await remove()
}

test('a process killed while it makes the tables leaves a database that opens', async (t) => {
  const { database, remove } = await makeDatabase('sqlite')
  const whole = opener(database)
  const [statements] = (await once(whole, 'message')) as [number]
  whole.kill('SIGKILL')
  await once(whole, 'exit')
  await remove()
  const deaths = Math.min(DEATHS, statements)
  t.diagnostic(`killed before ${deaths} of ${statements} statements`)
  // From the first statement to the last.
  for (let n = 0; n < deaths; n++) await openAfterDeath(1 + Math.round((n * (statements - 1)) / (deaths - 1)))
})

for (const engine of ['sqlite', 'postgres'] as const) {
  test(`concurrent processes that open a new database all succeed (${engine})`, async () => {
    const { database, remove } = await makeDatabase(engine)
    const children = [opener(database), opener(database), opener(database)]
    const ends = children.map(
      (child) =>
        new Promise((resolve) => {
          child.on('message', () => resolve('open'))
          child.on('exit', resolve)
        }),
    )
    assert.deepEqual(await Promise.all(ends), ['open', 'open', 'open'])
    for (const child of children) child.kill('SIGKILL')
    await remove()
  })
}

test('tables of a version that was never released are not called newer', async () => {
  const { database, remove } = await makeDatabase('sqlite')
  await (await openStore(database)).close()
  const file = new DatabaseSync(database)
  file.exec("insert into kysely_migration (name, timestamp) values ('0002_of_the_past', 'now')")
  file.close()
  const message =
    /has tables of a version before the first release \(0002_of_the_past\)\. Restore a backup, or move it away\.$/
  await assert.rejects(openStore(database), { code: 'invalid_request', message })
  await remove()
})

for (const engine of ['sqlite', 'postgres'] as const) {
  test(`an older version does not start on newer tables, and says so; one that runs continues (${engine})`, async () => {
    const { database, remove } = await makeDatabase(engine)
    const running = await openStore(database)
    const insert = "insert into kysely_migration (name, timestamp) values ('9999_of_the_future', 'now')"
    if (engine === 'sqlite') {
      const file = new DatabaseSync(database)
      file.exec(insert)
      file.close()
    } else {
      const client = new pg.Client(database)
      await client.connect()
      await client.query(insert)
      await client.end()
    }
    const message = /has tables of a newer version \(9999_of_the_future\)\. Start that version, or restore a backup\.$/
    await assert.rejects(openStore(database), { code: 'invalid_request', message })
    assert.equal(await running.accounts.byId('nobody'), undefined)
    await running.close()
    await remove()
  })
}

test('while another process writes to the SQLite file, only writers wait', async () => {
  const bench = await startBench('sqlite')
  const { key } = (await bench.signUp()).api_key
  await bench.call('GET', '/v1/keys', { key })
  const other = new DatabaseSync(bench.database)
  other.exec('begin immediate')
  const writing = bench.call('POST', '/v1/keys', { key })
  for (let i = 0; i < 20; i++) assert.equal((await bench.call('GET', '/v1/keys', { key })).status, 200)
  let written = false
  void writing.then(() => (written = true))
  assert.equal((await bench.call('GET', '/health')).status, 200)
  assert.equal(written, false)
  other.exec('rollback')
  other.close()
  assert.equal((await writing).status, 200)
  await bench.close()
})

for (const [what, error] of Object.entries({
  'a refused connection': Object.assign(new Error(), { code: 'ECONNREFUSED' }),
  'a statement that waited too long': Object.assign(new Error(), { code: '57014' }),
  'a standby': Object.assign(new Error(), { code: '25006' }),
  'a deadlock': Object.assign(new Error(), { code: '40P01' }),
  'a busy file': Object.assign(new Error(), { code: 'ERR_SQLITE_ERROR', errcode: 5 }),
  'several addresses that refuse': new AggregateError([Object.assign(new Error(), { code: 'ECONNREFUSED' })]),
  'a pool without a free connection': new Error('timeout exceeded when trying to connect'),
})) {
  test(`retryable: ${what}`, () => assert.equal(isUnavailable(error), true))
}

test('not retryable: an invalid query, or any other error', () => {
  for (const error of [
    Object.assign(new Error(), { code: '42703' }),
    Object.assign(new Error(), { code: 'ERR_SQLITE_ERROR', errcode: 1 }),
    new TypeError('x is not a function'),
    'a text',
    undefined,
  ]) {
    assert.equal(isUnavailable(error), false)
  }
})

test('a PostgreSQL that drops every connection under load causes a few 503s, but no crash', async (t) => {
  const bench = await startBench('postgres')
  t.after(() => bench.close())
  const { key } = (await bench.signUp()).api_key
  const admin = new pg.Client(process.env['STATIC_TEST_POSTGRES'])
  await admin.connect()
  t.after(() => admin.end())
  // Holds the account's row, so that requests are inside a transaction when their connections end.
  const holder = new pg.Client(bench.database)
  holder.on('error', () => {})
  await holder.connect()
  await holder.query('begin; update accounts set revision = revision')
  const asked = Array.from({ length: 6 }, () => bench.call('POST', '/v1/keys', { key }))
  const name = new URL(bench.database).pathname.slice(1)
  const waiting = "select count(*)::int as n from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'"
  for (let tries = 0; (await admin.query(waiting, [name])).rows[0].n === 0 && tries < 3000; tries++) await wait(20)
  await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
  const answers = await Promise.all(asked)
  for (const answer of answers) if (answer.status !== 200) assertProblem(answer, 503, 'unavailable')
  assert.ok(answers.some(({ status }) => status === 503))
  // Each connection of the pool may still be one that has ended.
  const after = await Promise.all(Array.from({ length: 10 }, () => bench.call('GET', '/v1/keys', { key })))
  for (const answer of after) if (answer.status !== 200) assertProblem(answer, 503, 'unavailable')
  assert.equal((await bench.call('GET', '/v1/keys', { key })).status, 200, 'it goes on by itself')
})

test('a database on a full disk is not opened, and the disk is named', { skip: noSmallDisk() }, async () => {
  for (const left of [0, 4096, 100_000]) {
    using disk = mountSmallDisk()
    disk.fill(left)
    const message = new RegExp(
      `^The disk with ${disk.path}/api.sqlite is full \\(\\d+ bytes free\\)\\. Free some space`,
    )
    await assert.rejects(openStore(join(disk.path, 'api.sqlite')), { code: 'unavailable', message })
  }
})

test('on a full disk the API is unavailable and not ready, and recovers when there is space', async (t) => {
  const prlimit = '/usr/bin/prlimit'
  if (!existsSync(prlimit)) return t.skip(`needs ${prlimit}`)
  const { database, remove } = await makeDatabase('sqlite')
  t.after(remove)
  const child = join(import.meta.dirname, 'disk-full-child.ts')
  const limited = ['--fsize=400000:unlimited', process.execPath, child, database, prlimit]
  const { stdout, stderr } = spawnSync(prlimit, limited, { encoding: 'utf8', timeout: 60_000 })
  assert.deepEqual(stdout === '' ? stderr : JSON.parse(stdout), {
    refused: { status: 503, code: 'unavailable' },
    whenFull: 503,
    whenFree: 200,
    after: 201,
  })
})
