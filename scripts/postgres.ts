/** A temporary PostgreSQL server for the tests: on loopback, TLS only, deleted afterwards. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openAuthority } from '@static/cli/authority'
import { ensureDebian } from './debian.ts'
import { say } from './step.ts'

/** A running server. */
export interface Postgres {
  /** Connection URL of a user that may create databases. */
  readonly url: string
  stop(): Promise<void>
}

/** Installs PostgreSQL if needed and starts it. */
export async function startPostgres(cache: string): Promise<Postgres> {
  const binary = await ensureDebian('postgresql', '/usr/lib/postgresql/*/bin/postgres', 'The test suite')
  say('Starting PostgreSQL for the tests')
  const bin = dirname(binary)
  process.env['STATIC_TEST_POSTGRES_BIN'] = bin
  // PostgreSQL refuses to run as root.
  const user = process.getuid?.() === 0 ? idsOf('postgres') : undefined
  const home = mkdtempSync(join(user && !everyoneMayEnter(cache) ? tmpdir() : cache, 'static-postgres-'))
  const data = join(home, 'data')
  mkdirSync(data, { mode: 0o700 })

  const authority = await openAuthority({ directory: join(home, 'ca'), names: [] })
  const { cert, key } = await authority.issue(['localhost', '127.0.0.1'])
  const password = randomBytes(16).toString('hex')
  const files = { 'server.crt': cert, 'server.key': key, password }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(home, name), content, { mode: 0o600 })
  const ca = join(home, 'ca.pem')
  writeFileSync(ca, authority.cert)
  chmodSync(home, 0o755)
  if (user) for (const name of ['data', ...Object.keys(files)]) chownSync(join(home, name), user.uid, user.gid)

  const { LD_LIBRARY_PATH } = process.env
  const options = { ...user, cwd: home, env: { PATH: bin, LC_ALL: 'C', LD_LIBRARY_PATH } }
  const words = ['-D', data, '-U', 'static', '--auth=scram-sha-256', `--pwfile=${join(home, 'password')}`, '-E', 'UTF8']
  execFileSync(join(bin, 'initdb'), words, { ...options, stdio: 'ignore' })
  const hba = join(data, 'pg_hba.conf')
  writeFileSync(hba, 'hostssl all all 127.0.0.1/32 scram-sha-256\n')
  const port = await freePort()
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    ssl: 'on',
    ssl_cert_file: join(home, 'server.crt'),
    ssl_key_file: join(home, 'server.key'),
    ssl_min_protocol_version: 'TLSv1.3',
    log_min_messages: 'fatal',
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn(binary, ['-D', data, ...flags], { ...options, stdio: ['ignore', 'ignore', 'inherit'] })
  for (
    let tries = 0;
    spawnSync(join(bin, 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', String(port)]).status !== 0;
    tries++
  ) {
    if (tries > 150 || server.exitCode !== null) throw new Error('PostgreSQL did not start; see its output above.')
    await wait(200)
  }
  return {
    url: `postgres://static:${password}@127.0.0.1:${port}/postgres?sslmode=verify-full&sslrootcert=${ca}`,
    async stop() {
      const ended = once(server, 'exit')
      server.kill('SIGINT')
      await ended
      rmSync(home, { recursive: true, force: true })
    },
  }
}

function idsOf(name: string): { uid: number; gid: number } {
  const id = (flag: string): number => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

function everyoneMayEnter(folder: string): boolean {
  const parent = dirname(folder)
  return (statSync(folder).mode & 0o001) !== 0 && (parent === folder || everyoneMayEnter(parent))
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  if (address === null || typeof address === 'string') throw new Error('Found no free TCP port.')
  return address.port
}
