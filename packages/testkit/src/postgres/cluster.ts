/** A PostgreSQL primary and its synchronous standby on loopback, for tests that kill them and for measurements. */
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { quietPort } from '../ports.ts'

/** The primary and its standby. */
export interface PostgresCluster {
  /** Names both hosts. */
  readonly url: string
  readonly primary: PostgresServer
  readonly standby: PostgresServer
  /** Kills the primary and promotes the standby, which is the primary from now on and waits for no standby. */
  failOver(): Promise<void>
  /** Makes a killed server the standby of the primary, from a fresh copy. Commits wait for it. */
  rebuildStandby(): Promise<void>
  /** Stops both and deletes their data. */
  close(): Promise<void>
}

/** PostgreSQL refuses to run as root. */
const user: { readonly uid?: number; readonly gid?: number } = process.getuid?.() === 0 ? idsOf('postgres') : {}
const installed = dirname(globSync('/usr/lib/postgresql/*/bin/postgres').at(-1) ?? 'postgres')
/** Set by `npm test`, which may have unpacked it elsewhere. */
const bin = process.env['STATIC_TEST_POSTGRES_BIN'] ?? installed
const binary = join(bin, 'postgres')
/** Leaves this process free to work, unlike `execFileSync`. */
const start = promisify(execFile)

/** A server that can be killed and started again. */
export class PostgresServer {
  readonly port: number
  readonly data: string
  #process: ChildProcess | undefined

  constructor(data: string, port: number) {
    this.data = data
    this.port = port
  }

  get url(): string {
    return `postgres://static:none@127.0.0.1:${this.port}/postgres?sslmode=disable`
  }

  /** Starts it; after a kill it recovers first. Processes of the one before may still have to notice its end. */
  async start(): Promise<void> {
    for (let tries = 0; tries < 600; tries++) {
      if (this.#process?.exitCode !== null || this.#process.signalCode !== null) {
        const flags = ['-c', `port=${this.port}`, '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=']
        const others = ['-c', 'log_min_messages=panic', '-c', 'hot_standby=on']
        this.#process = spawn(binary, ['-D', this.data, ...flags, ...others], {
          ...user,
          cwd: this.data,
          stdio: 'ignore',
        })
      }
      if (spawnSync(join(bin, 'pg_isready'), ['-q', ...this.#address()]).status === 0) return
      await wait(100)
    }
    throw new Error(`PostgreSQL on port ${this.port} does not start`)
  }

  /** Runs SQL as the superuser. Returns the rows as lines of text. */
  ask(sql: string): string {
    const words = [...this.#address(), '-U', 'static', '-d', 'postgres', '-A', '-t', '-c', sql]
    return execFileSync(join(bin, 'psql'), words, { encoding: 'utf8' }).trim()
  }

  /** The id of its first process. */
  get pid(): number | undefined {
    return this.#process?.pid
  }

  /** As if the machine had lost power, except for what the kernel still writes. */
  async kill(): Promise<void> {
    const ended = this.#process && once(this.#process, 'exit')
    this.#process?.kill('SIGKILL')
    await ended
  }

  /** Whether commits wait until they are on a standby. */
  async waitForStandby(does: boolean): Promise<void> {
    const setting = `alter system set synchronous_standby_names = '${does ? '*' : ''}'`
    const words = [...this.#address(), '-U', 'static', '-d', 'postgres', '-q']
    await start(join(bin, 'psql'), [...words, '-c', setting, '-c', 'select pg_reload_conf()'])
  }

  async promote(): Promise<void> {
    await start(join(bin, 'pg_ctl'), ['promote', '-D', this.data, '-s', '-w'], { ...user, cwd: this.data })
  }

  async stop(): Promise<void> {
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGINT')
    await ended
  }

  #address(): string[] {
    return ['-h', '127.0.0.1', '-p', String(this.port)]
  }
}

/** Starts both. Commits wait for the standby, unless `isSynchronous` is false. */
export async function startCluster(isSynchronous = true): Promise<PostgresCluster> {
  const home = mkdtempSync(join(tmpdir(), 'static-cluster-'))
  const folder = (name: string): string => {
    const path = join(home, name)
    mkdirSync(path, { mode: 0o700 })
    own(path)
    return path
  }
  own(home)
  let primary = new PostgresServer(folder('primary'), await quietPort())
  let standby = new PostgresServer(folder('standby'), await quietPort())
  const url = `postgres://static:none@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres?sslmode=disable`
  const close = async (): Promise<void> => {
    await standby.stop()
    await primary.stop()
    rmSync(home, { recursive: true, force: true })
  }
  const run = async (program: string, ...words: string[]): Promise<void> =>
    void (await start(join(bin, program), words, { ...user, cwd: home }))
  const copyToStandby = async (): Promise<void> => {
    const from = ['-h', '127.0.0.1', '-p', String(primary.port), '-U', 'static']
    await run('pg_basebackup', ...from, '-D', standby.data, '-R', '-X', 'stream', '-c', 'fast', '--no-sync')
    await standby.start()
  }
  try {
    await run('initdb', '-D', primary.data, '-U', 'static', '-A', 'trust', '-E', 'UTF8', '--no-sync', '-k')
    await primary.start()
    await copyToStandby()
    if (isSynchronous) await primary.waitForStandby(true)
  } catch (error) {
    await close()
    throw error
  }
  return {
    url,
    get primary() {
      return primary
    },
    get standby() {
      return standby
    },
    failOver: async () => {
      await primary.kill()
      await standby.promote()
      ;[primary, standby] = [standby, primary]
      await primary.waitForStandby(false)
    },
    rebuildStandby: async () => {
      rmSync(standby.data, { recursive: true })
      await copyToStandby()
      await primary.waitForStandby(true)
    },
    close,
  }
}

function own(path: string): void {
  if (user.uid !== undefined && user.gid !== undefined) chownSync(path, user.uid, user.gid)
}

function idsOf(name: string): { uid: number; gid: number } {
  const id = (flag: string): number => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}
