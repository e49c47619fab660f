/** Two API nodes over a PgBouncer in transaction mode: `npm run proof -- pgbouncer`. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { type Api, openStore, startApi } from '@static/api'
import type { Usage } from '@static/protocol'
import { quietPort } from '@static/testkit/ports'
import { makeKey, signUp } from '@static/testkit/server/accounts'
import { type Client, makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type Database, makeDatabase } from '../../tests/support/database.ts'

const { STATIC_PGBOUNCER: binary = '' } = process.env
const NOBODY = 65_534

/** A PgBouncer in front of a database, with two connections to it. */
async function startPgBouncer(database: string): Promise<{ url: string; stop: () => Promise<void> }> {
  const target = new URL(database)
  const home = mkdtempSync(join(tmpdir(), 'static-pgbouncer-'))
  const port = await quietPort()
  const users = join(home, 'users.txt')
  const settings = join(home, 'pgbouncer.ini')
  writeFileSync(users, `"${target.username}" "${target.password}"\n`)
  const lines = [
    '[databases]',
    `* = host=${target.hostname} port=${target.port}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'pool_mode = transaction',
    'default_pool_size = 2',
    'max_client_conn = 100',
    'auth_type = scram-sha-256',
    `auth_file = ${users}`,
    'server_tls_sslmode = verify-full',
    `server_tls_ca_file = ${target.searchParams.get('sslrootcert')}`,
  ]
  writeFileSync(settings, `${lines.join('\n')}\n`)
  chmodSync(home, 0o755)
  // PgBouncer refuses to run as root.
  const isRoot = process.getuid?.() === 0
  for (const file of [users, settings]) {
    chmodSync(file, 0o600)
    if (isRoot) chownSync(file, NOBODY, NOBODY)
  }
  const ids = isRoot ? { uid: NOBODY, gid: NOBODY } : {}
  const server = spawn(binary, ['-q', settings], { ...ids, stdio: ['ignore', 'ignore', 'inherit'] })
  for (let tries = 0; !(await answers(port)); tries++) {
    if (tries > 100 || server.exitCode !== null) throw new Error('PgBouncer did not start; see its output above.')
    await wait(50)
  }
  return {
    url: `postgres://${target.username}:${target.password}@127.0.0.1:${port}${target.pathname}?sslmode=disable`,
    async stop() {
      const ended = once(server, 'exit')
      server.kill('SIGTERM')
      await ended
      rmSync(home, { recursive: true })
    },
  }
}

function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return new Promise((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  }).then((is) => {
    socket.destroy()
    return is as boolean
  })
}

describe('PgBouncer in transaction mode', () => {
  let database: Database
  let bouncer: Awaited<ReturnType<typeof startPgBouncer>>
  const nodes: Api[] = []
  const clients: Client[] = []
  before(async () => {
    const workspace = await makeWorkspace()
    const { cert, key, ca } = workspace
    database = await makeDatabase()
    bouncer = await startPgBouncer(database.url)
    const masterKey = randomBytes(32)
    for (let at = 0; at < 2; at++) {
      const node = await startApi({
        database: `${bouncer.url}&pgbouncer=true`,
        masterKey,
        host: 'localhost',
        port: 0,
        certificate: { cert, key },
        settings: QUICK,
        log: { write: (line) => process.stderr.write(line), pretty: false, level: 'error' },
      })
      nodes.push(node)
      clients.push(makeClient(node.url, ca, { connections: 32 }))
    }
    workspace[Symbol.dispose]()
  })
  after(async () => {
    for (const client of clients) client.close()
    for (const node of nodes) await node.close()
    await bouncer.stop()
    await database[Symbol.asyncDispose]()
  })

  test('without pgbouncer=true the API does not start, and says what to do', async () => {
    await assert.rejects(openStore(bouncer.url), {
      code: 'invalid_request',
      message: 'The database is behind a PgBouncer. Add pgbouncer=true to its URL.',
    })
  })

  test('six hundred concurrent requests of all kinds on two nodes all succeed', async () => {
    const at = (n: number): Client => clients[n % 2] as Client
    const people = await Promise.all(Array.from({ length: 20 }, (_, n) => signUp(at(n))))
    await Promise.all(
      Array.from({ length: 580 }, async (_, n) => {
        const { key } = people[n % people.length]?.api_key ?? { key: '' }
        if (n % 4 === 0) await makeKey(at(n), key)
        else if (n % 4 === 1) await at(n).json(200, { method: 'POST', path: '/v1/tokens', key })
        else if (n % 4 === 2) await at(n).json(200, { path: '/v1/keys', key })
        else await at(n).json<Usage>(200, { path: '/v1/usage', key })
      }),
    )
    const [row] = await database.query<{ n: string }>('select count(*) as n from api_keys')
    assert.equal(Number(row?.n), 20 + 145)
  })
})
