/** The server ends in order when it is asked to, and says in one sentence why it cannot start. */
import assert from 'node:assert/strict'
import { chmodSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, makeClient } from '@static/testkit/server/client'
import { makeDatabase } from '../support/database.ts'
import { PASSWORD, signUp } from '@static/testkit/server/accounts'
import { openTls } from '../support/raw.ts'
import { sentenceOf } from '@static/testkit/server/process'
import { failToStart, type ServerOptions, startServer } from '@static/testkit/server'
import { HIGH_RATES, QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

/** Waits until the server's metrics say so. */
async function until(client: Client, holds: (metrics: string) => boolean): Promise<void> {
  for (let tries = 0; tries < 20_000; tries++) {
    if (holds((await client.call({ path: '/metrics' })).text)) return
    await wait(5)
  }
  assert.fail('It never came to that.')
}

/** How long it may take to end: more than a busy machine needs for the requests that are under way. */
const SHUTDOWN_SECONDS = 120
const UNDER_WAY = 12

/** How many runs have begun or wait. */
function asked(metrics: string): number {
  const figures = [...metrics.matchAll(/^static_api_argon2_(?:runs_total|waiting) (\d+)$/gm)]
  return figures.reduce((sum, [, figure]) => sum + Number(figure), 0)
}

describe('asked to stop', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(
      `${signal}: pending requests finish, pending writes complete, exit code 0`,
      signal === 'SIGINT' ? WHOLE_ONLY : {},
      async () => {
        const dataDir = workspace.directory(signal)
        // Argon2id at its real cost: that is what keeps requests under way.
        const settings = { rates: HIGH_RATES, http: { shutdownSeconds: SHUTDOWN_SECONDS } }
        await using server = await startServer({ workspace, dataDir, settings })
        using client = makeClient(server.url, workspace.ca, { connections: 32 })
        using probe = makeClient(server.url, workspace.ca, { connections: 1 })
        const { email, api_key: key } = await signUp(client)
        await client.json(200, { method: 'POST', path: '/v1/tokens', key: key.key })
        // The first use was written at once; this one waits for its minute.
        await wait(20)
        const secondUse = Date.now()
        await client.json(200, { method: 'POST', path: '/v1/tokens', key: key.key })

        const signIn = { method: 'POST', path: '/v1/sessions', body: { email, password: PASSWORD } }
        const before = asked((await probe.call({ path: '/metrics' })).text)
        const underWay = Array.from({ length: UNDER_WAY }, () => client.call(signIn))
        await until(probe, (metrics) => asked(metrics) >= before + UNDER_WAY)
        const ended = server.end(signal)
        const answers = await Promise.all(underWay)
        assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201])
        const answered = performance.now()
        assert.deepEqual(await ended, { code: 0, signal: null })
        // Connections that clients would keep must not hold it: it would wait `shutdownSeconds`.
        const waited = performance.now() - answered
        assert.ok(waited < SHUTDOWN_SECONDS * 500, `After the last answer it took ${waited.toFixed(0)} ms to end.`)
        await assert.rejects(makeClient(server.url, workspace.ca).call({ path: '/health' }), /ECONNREFUSED/)

        using file = new DatabaseSync(join(dataDir, 'api.sqlite'), { readOnly: true })
        const row = file.prepare('select last_used_at from api_keys where id = ?').get(key.id)
        assert.ok(Number(row?.['last_used_at']) >= secondUse, 'The last use was not written.')
        const period = file.prepare('select token_exchanges from usage_periods').get()
        assert.equal(period?.['token_exchanges'], 2)
        assert.equal(file.prepare('select count(*) as sessions from sessions').get()?.['sessions'], UNDER_WAY)
      },
    )
  }

  test('a client that holds its request open is eventually cut off', async () => {
    const dataDir = workspace.directory('slow')
    const settings = { ...QUICK, http: { shutdownSeconds: 1 } }
    await using server = await startServer({ workspace, dataDir, settings })
    using idle = await openTls(server.url, workspace.ca)
    using slow = await openTls(server.url, workspace.ca)
    slow.send('POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{')
    using probe = makeClient(server.url, workspace.ca)
    await probe.json(200, { path: '/health' })
    assert.deepEqual(await server.end('SIGTERM'), { code: 0, signal: null })
    await Promise.all([idle.closed, slow.closed])
  })

  test('a second signal exits at once, with exit code 1', async () => {
    const settings = { ...QUICK, http: { shutdownSeconds: 300 } }
    await using server = await startServer({ workspace, dataDir: workspace.directory('twice'), settings })
    using slow = await openTls(server.url, workspace.ca)
    slow.send('POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{')
    using probe = makeClient(server.url, workspace.ca)
    await probe.json(200, { path: '/health' })
    process.kill(server.pid, 'SIGTERM')
    // The listening socket is closed first: then it has heard.
    for (let tries = 0; tries < 20_000; tries++) {
      const gone = await openTls(server.url, workspace.ca).then(
        (line) => line[Symbol.dispose](),
        () => true,
      )
      if (gone === true) break
    }
    assert.deepEqual(await server.end('SIGTERM'), { code: 1, signal: null })
  })
})

describe('cannot start: one clear sentence, exit code 1', () => {
  /** Starts, and insists on exactly one sentence that matches. */
  const refuses = async (options: Omit<ServerOptions, 'workspace'>, sentence: RegExp): Promise<void> => {
    const { code, errors } = await failToStart({ workspace, ...options })
    assert.match(sentenceOf(errors), sentence)
    assert.match(sentenceOf(errors), /^[^\n]+\.$/)
    assert.doesNotMatch(errors, /went wrong inside|-word|\bat .*:\d+:\d+|node:internal|Error:/)
    assert.equal(code, 1)
  }

  test('the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    await refuses({ dataDir: workspace.directory('port'), port }, /port \d+: it is in use by another program/)
    other.close()
  })

  test('the data directory is writable by others', async () => {
    const dataDir = workspace.directory('open')
    chmodSync(dataDir, 0o777)
    await refuses({ dataDir }, /writable by other users: run `chmod 700/)
  })

  test('the data directory cannot be created', async () => {
    await refuses(
      { dataDir: '/sys/static-e2e' },
      /Cannot create the data directory .* Choose another one with --data-dir/,
    )
  })

  test('the data directory is a file', async () => {
    await refuses({ dataDir: workspace.file('file', '') }, /is a file/)
  })

  test('a secret file is readable by others', async () => {
    const dataDir = workspace.directory('loose')
    writeFileSync(join(dataDir, 'master.key'), `${'ab'.repeat(32)}\n`)
    chmodSync(join(dataDir, 'master.key'), 0o644)
    await refuses({ dataDir }, /master\.key is accessible by other users: run `chmod 600/)
  })

  test('the master key is a different one', async () => {
    const dataDir = workspace.directory('master')
    await using server = await startServer({ workspace, dataDir, settings: QUICK })
    assert.equal((await server.end('SIGTERM')).code, 0)
    writeFileSync(join(dataDir, 'master.key'), `${'ab'.repeat(32)}\n`)
    await refuses({ dataDir, settings: QUICK }, /master key does not open/)
  })

  test('the master key is damaged', async () => {
    const dataDir = workspace.directory('damaged')
    workspace.file('damaged/master.key', 'short\n')
    await refuses({ dataDir }, /master\.key is not a master key: it must contain 64 hexadecimal digits/)
  })

  test('the database file is not a database', async () => {
    const dataDir = workspace.directory('no-database')
    workspace.file('no-database/api.sqlite', 'This is not a database. '.repeat(100))
    await refuses({ dataDir, settings: QUICK }, /api\.sqlite/)
  })

  test('the database is unreachable', async () => {
    const database = 'postgres://static:secret-word@127.0.0.1:1/static'
    await refuses({ dataDir: workspace.directory('unreachable'), database }, /database cannot be reached/)
  })

  test('the database refuses the password', async () => {
    await using database = await makeDatabase()
    const wrong = new URL(database.url)
    wrong.password = 'wrong-word'
    await refuses({ dataDir: workspace.directory('refused'), database: wrong.href }, /database/)
  })

  test('the database has another certificate', async () => {
    await using database = await makeDatabase()
    const wrong = new URL(database.url)
    wrong.searchParams.set('sslrootcert', workspace.file('other-ca.pem', workspace.ca))
    await refuses({ dataDir: workspace.directory('untrusted'), database: wrong.href }, /database/)
  })

  test('a setting is unknown', async () => {
    await refuses({ dataDir: workspace.directory('setting'), settings: { speed: 11 } }, /Unknown setting speed/)
  })
})
