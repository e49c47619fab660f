import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { mock, test } from 'node:test'
import { parsePostgresUrl } from '@static/node/postgres-address'
import { quietPort } from '@static/testkit/ports'
import { listenWithoutTls, SSL_REQUEST } from '@static/testkit/postgres/plain'
import { statementName } from '../src/db/postgres.ts'
import { poolOptions } from '../src/db/postgres-pool.ts'
import { openingError } from '../src/db/unavailable.ts'
import { openStore } from '../src/index.ts'
import { makeDatabase, startBench } from './support.ts'

test('a prepared statement is named by its text', () => {
  const text = 'select "id" from "api_keys" where "prefix" = $1'
  assert.equal(statementName(text), 'static_02187116711f06c9ee2b4b7b')
  assert.notEqual(statementName(text), statementName(`${text} `))
  assert.ok(statementName(text).length < 64, 'PostgreSQL cuts longer names')
})

test('a URL has hosts, a user, a database and TLS', () => {
  const { hosts, user, password, database, ssl, parameters } = parsePostgresUrl(
    'postgresql://static%40x:se%3Acret:x@db-1.example.com:6432,[2001:db8::1]:80,10.0.0.3/my%20db?sslmode=verify-full&pgbouncer=true',
    ['pgbouncer'],
  )
  assert.deepEqual(hosts, [
    { host: 'db-1.example.com', port: 6432 },
    { host: '2001:db8::1', port: 80 },
    { host: '10.0.0.3', port: 5432 },
  ])
  assert.deepEqual([user, password, database], ['static@x', 'se:cret:x', 'my db'])
  assert.deepEqual(ssl, { minVersion: 'TLSv1.3', rejectUnauthorized: true })
  assert.deepEqual([...parameters], [['pgbouncer', 'true']])
  assert.equal(parsePostgresUrl('postgres://static@[::1]/static').hosts[0]?.host, '::1')
})

for (const [what, url, message] of [
  ['no database', 'postgres://static:geheim@localhost', /must have the form postgres:/],
  ['an invalid host', 'postgres://static:geheim@a b/x', /has an invalid host/],
  ['a port that is none', 'postgres://static:geheim@a:99999/x', /a port above 65535/],
  ['a slash in its password', 'postgres://static:geheim /x@a/x', /Percent-encode the password/],
  ['encryption without verification', 'postgres://static:geheim@a/x?sslmode=require', /sslmode=require is not/],
  [
    'an unknown parameter',
    'postgres://static:geheim@a/x?options=-c',
    /parameter options .* Use only sslmode, sslrootcert/,
  ],
  ['a broken escape', 'postgres://static:geheim%@a/x', /not percent-encoded/],
] as const) {
  test(`a URL with ${what} is refused without its password`, () => {
    assert.throws(
      () => parsePostgresUrl(url),
      (error: Error) => message.test(error.message) && !error.message.includes('geheim'),
    )
  })
}

test('a PgBouncer gets no session settings, and without pgbouncer=true the error says what is wrong', async () => {
  const address = parsePostgresUrl('postgres://static@localhost/static')
  const settings = ['statement_timeout', 'idle_in_transaction_session_timeout', 'options', 'lock_timeout']
  const sent = (pooled: boolean): string[] =>
    settings.filter((name) => name in poolOptions(address, { pooled, waitSeconds: 3 }))
  assert.deepEqual(sent(false), ['statement_timeout', 'idle_in_transaction_session_timeout'])
  assert.deepEqual(sent(true), [])
  await assert.rejects(
    openStore('postgres://static@localhost/static?pgbouncer=yes'),
    /pgbouncer=yes .* Use true or false/,
  )
  const refusal = Object.assign(new Error('unsupported startup parameter: statement_timeout'), { code: '08P01' })
  assert.match(openingError(refusal, 'The database').message, /is behind a PgBouncer\. Add pgbouncer=true to its URL\./)
})

test('without sslmode the password is sent only over verified TLS', async () => {
  assert.deepEqual(parsePostgresUrl('postgres://static@a/x').ssl, { minVersion: 'TLSv1.3', rejectUnauthorized: true })
  assert.equal(parsePostgresUrl('postgres://static@a/x?sslmode=disable').ssl, false)
  await using plain = await listenWithoutTls()
  await assert.rejects(
    openStore(`postgres://static:geheim@127.0.0.1:${plain.port}/static`),
    /The database does not offer TLS\. .* add sslmode=disable to the URL/,
  )
  assert.deepEqual(plain.heard(), SSL_REQUEST)
})

test('a database that does not answer is unavailable after the configured time', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1')
  t.after(() => silent.close())
  await once(silent, 'listening')
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const { port } = silent.address() as AddressInfo
  let error: unknown
  const opening = openStore(`postgres://static@127.0.0.1:${port}/static`, { waitSeconds: 60 }).then(
    () => assert.fail('Nobody answered.'),
    (found: unknown) => (error = found),
  )
  await once(silent, 'connection')
  mock.timers.tick(59_999)
  // The driver needs a few turns from its timer to its error.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  assert.equal(error, undefined)
  mock.timers.tick(1)
  await opening
  assert.match(String(error), /The database cannot be reached/)
})

test('the first host that answers is used; the API also works without prepared statements', async (t) => {
  const { database, remove } = await makeDatabase('postgres')
  t.after(remove)
  const { host } = new URL(database)
  const hosts = `127.0.0.1:${await quietPort()},${host}`
  const bench = await startBench('postgres', { database: `${database.replace(host, hosts)}&pgbouncer=true` })
  try {
    const { key } = (await bench.signUp()).api_key
    const answers = await Promise.all(Array.from({ length: 20 }, () => bench.call('POST', '/v1/tokens', { key })))
    for (const { status } of answers) assert.equal(status, 200)
    assert.equal((await bench.call('GET', '/health/ready')).status, 200)
  } finally {
    await bench.close()
  }
})
