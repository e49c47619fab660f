/**
 * The commands of docs/07-several-nodes.md that make PostgreSQL with a standby, lose the primary, back up and restore: run
 * as they stand there, from nothing, on two machines with Debian's PostgreSQL. Each machine is a set of namespaces with
 * files and a network of its own.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { openAuthority } from '@static/cli/authority'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { ROOT, type Snippet, snippetsOf } from './markdown.ts'

const PAGE = 'docs/07-several-nodes.md'
const MACHINES = ['db-1', 'db-2'] as const
type Name = (typeof MACHINES)[number]
/** A command that waits for a standby which does not exist would wait forever. */
const COMMAND_MS = 120_000
const VERSION = basename(dirname(dirname(globSync('/usr/lib/postgresql/*/bin/postgres').at(-1) ?? '/15/bin/postgres')))

const snippets = snippetsOf(PAGE)
const isOnMachine = ({ language, code }: Snippet): boolean => language === 'sh' && /^# On db-\d, as root\n/.test(code)
const start = promisify(execFile)

/** Which program is missing here, or that namespaces are. */
function missing(): string | false {
  if (globSync('/usr/bin/pg_createcluster').length === 0) return 'needs PostgreSQL of Debian (postgresql-common)'
  const { status } = spawnSync('unshare', ['--mount', '--net', '--pid', '--fork', 'mount', '-t', 'tmpfs', 'x', '/mnt'])
  return status === 0 ? false : 'needs root, and namespaces of its own'
}

class Machine {
  readonly #process: ChildProcess
  /** The first process in its namespaces. */
  readonly pid: number

  private constructor(process: ChildProcess, pid: number) {
    this.#process = process
    this.pid = pid
  }

  static async start(): Promise<Machine> {
    const flags = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc']
    // It waits for its children, as the first process of a machine does.
    const first = ['sh', '-c', 'echo ready; while :; do sleep 1000 & wait; done']
    const child = spawn('unshare', [...flags, ...first], { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    const pid = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'))
    return new Machine(child, pid)
  }

  /** Runs a script as root. Returns its output. */
  async run(script: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    const words = ['-t', String(this.pid), '-m', '-n', '-p', 'sh', '-euc', script]
    const { stdout } = await start('nsenter', words, {
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8', ...env },
      cwd: '/',
      timeout: COMMAND_MS,
    })
    return stdout
  }

  async stop(): Promise<void> {
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }
}

describe('PostgreSQL by the book', { skip: missing(), timeout: 900_000 }, () => {
  let workspace: Workspace
  const machines = new Map<Name, Machine>()
  const machine = (name: Name): Machine => machines.get(name) as Machine
  before(async () => {
    workspace = await makeWorkspace()
    const directory = workspace.directory('db-ca')
    const hosts = MACHINES.map((name) => `${name}.example.com`)
    const authority = await openAuthority({ directory, names: hosts })
    for (const [at, name] of MACHINES.entries()) {
      const home = workspace.directory(name)
      const made = await Machine.start()
      machines.set(name, made)
      for (const part of ['etc', 'work', 'lib', 'log', 'backups']) mkdirSync(join(home, part))
      const { cert, key } = await authority.issue([`${name}.example.com`])
      const files = [workspace.file(`${name}.crt`, cert), workspace.file(`${name}.key`, key), authority.path].join(' ')
      await made.run(
        `mount -t overlay static -o lowerdir=/etc,upperdir=${home}/etc,workdir=${home}/work /etc
        mount -t tmpfs static /run
        for part in lib log; do chown postgres: ${home}/$part; mount --bind ${home}/$part /var/$part/postgresql; done
        mount --bind ${home}/backups /var/backups
        install -d -o postgres /run/postgresql
        rm -rf /etc/postgresql/*
        printf '127.0.0.1 localhost\n10.7.0.1 db-1.example.com\n10.7.0.2 db-2.example.com\n' > /etc/hosts
        mkdir -p /etc/static
        cp -r ${ROOT}/deploy/postgres /etc/static/postgres
        set -- ${files}
        install -m 644 "$1" /etc/static/db.crt
        install -m 600 -o postgres "$2" /etc/static/db.key
        install -m 644 "$3" /etc/static/db-ca.pem
        pg_createcluster ${VERSION} main --start`,
      )
      if (at === 0) continue
      const link = `ip link add db0 type veth peer name db0 netns ${made.pid}`
      await start('nsenter', ['-t', String(machine('db-1').pid), '-n', ...link.split(' ')])
      for (const [number, peer] of MACHINES.entries()) {
        await machine(peer).run(`ip address add 10.7.0.${number + 1}/24 dev db0; ip link set lo up; ip link set db0 up`)
      }
    }
  })
  after(async () => {
    for (const each of machines.values()) await each.stop()
    workspace?.[Symbol.dispose]()
  })

  /** Runs the next commands of the page. */
  let next = 0
  const commands = snippets.filter(isOnMachine)
  const follow = async (): Promise<string> => {
    const { code } = commands[next++] as Snippet
    const name = /^# On (db-\d)/.exec(code)?.[1] as Name
    return await machine(name).run(code.replaceAll(/\b15(?=[ /]main)/g, VERSION))
  }
  const passwordOf = async (role: string): Promise<string> =>
    (await machine('db-1').run(`cat /etc/static/passwords/${role}.password`)).trim()
  /** With the URL of the page: both hosts, verified. */
  const migrate = async (): Promise<string> => {
    const hosts = MACHINES.map((name) => `${name}.example.com:5432`).join(',')
    const url = `postgres://static_api:${await passwordOf('api')}@${hosts}/static_api?sslrootcert=/etc/static/db-ca.pem`
    const script = `${process.execPath} ${ROOT}/packages/cli/src/main.js admin migrate`
    return machine('db-1').run(script, { STATIC_DATABASE: url, HOME: workspace.path })
  }
  const ask = (name: Name, database: string, sql: string): Promise<string> =>
    machine(name).run(`su postgres -c "psql -X -A -t -q -d ${database} -c \\"${sql}\\""`)
  const standbyOf = (name: Name): Promise<string> =>
    ask(name, 'postgres', 'select application_name, sync_state from pg_stat_replication')

  test('the databases are created before the standby, which is then made', async () => {
    await follow()
    assert.equal(await standbyOf('db-1'), '')
    const password = await passwordOf('replica')
    await machine('db-2').run(
      `install -d -m 700 /etc/static/passwords; cat > /etc/static/passwords/replica.password <<END\n${password}\nEND`,
    )
    await follow()
    const { code: expected } = snippets.find(({ language, page }) => language === 'text' && page === PAGE) as Snippet
    assert.equal((await follow()).trim(), expected)
    assert.match(await migrate(), /The database is up to date/)
  })

  test('the standby takes over, and the lost primary becomes its standby', async () => {
    await machine('db-1').run(`pg_ctlcluster ${VERSION} main stop -m immediate`)
    await follow()
    assert.match(await migrate(), /The database is up to date/)
    await follow()
    await follow()
    assert.equal(await standbyOf('db-2'), 'static_standby|sync\n')
    await ask('db-2', 'static_api', 'create table kept (id int)')
  })

  test('a backup from the standby, restored, is a primary with everything', async () => {
    await follow()
    await ask('db-2', 'static_api', 'create table later (id int)')
    await follow()
    assert.equal(await ask('db-2', 'postgres', 'select pg_is_in_recovery()'), 'f\n')
    const tables = "select count(*) from pg_tables where tablename in ('kept', 'later', 'accounts')"
    assert.equal(await ask('db-2', 'static_api', tables), '2\n')
    assert.equal(next, commands.length, 'every command of the page has been run')
  })

  test('create.sql without a password creates nothing', async () => {
    const script = "su postgres -c 'PASSWORDS=/nowhere psql -X -f /etc/static/postgres/create.sql'"
    await assert.rejects(machine('db-2').run(script), /nowhere/)
  })
})
