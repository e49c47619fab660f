/** API and relay on one node, as processes that can be killed, stopped and started again. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { quietPort } from '@static/testkit/ports'
import { relayWords, type Server, startServer } from '@static/testkit/server'
import { type Ready, startCommand } from '@static/testkit/server/process'
import { QUICK } from '@static/testkit/server/settings'
import type { Workspace } from '@static/testkit/server/workspace'
import { Clock } from './clock.ts'
import type { Target } from './line.ts'

/** Short, so that agents notice soon what was cut. */
const RELAY_SETTINGS = { session: { pingMs: 1000, pongMs: 1000 } }

/** The servers. */
export class Servers implements AsyncDisposable {
  /** Where the relay listens, also after a restart. */
  readonly target: Target
  readonly clock: Clock
  readonly #startApi: () => Promise<Server>
  readonly #startRelay: () => Promise<Ready<unknown>>
  #api: Server
  #relay: Ready<unknown>

  private constructor(
    target: Target,
    clock: Clock,
    api: readonly [Server, () => Promise<Server>],
    relay: readonly [Ready<unknown>, () => Promise<Ready<unknown>>],
  ) {
    this.target = target
    this.clock = clock
    ;[this.#api, this.#startApi] = api
    ;[this.#relay, this.#startRelay] = relay
  }

  static async start(workspace: Workspace): Promise<Servers> {
    const apiDir = workspace.directory('api')
    const ports = { port: await quietPort(), internalPort: await quietPort() }
    const options = {
      workspace,
      dataDir: apiDir,
      settings: QUICK,
      internal: true,
      logLevel: 'silent',
      ...ports,
    } as const
    const startApi = (): Promise<Server> => startServer(options)
    const api = await startApi()
    const target = { grpcPort: await quietPort(), quicPort: await quietPort() }
    const clock = new Clock(join(workspace.path, 'relay.clock'))
    const words = relayWords({
      workspace,
      dataDir: workspace.directory('relay'),
      api,
      credential: join(apiDir, 'relay.credential'),
      settings: RELAY_SETTINGS,
      ...target,
    })
    const startRelay = (): Promise<Ready<unknown>> =>
      startCommand([...words, '--quic-endpoints', '1', '--log-level', 'error'], {
        env: { TMPDIR: workspace.path, ...clock.env },
        nodeFlags: clock.nodeFlags,
      })
    try {
      return new Servers(target, clock, [api, startApi], [await startRelay(), startRelay])
    } catch (error) {
      await api.end('SIGKILL')
      throw error
    }
  }

  get apiUrl(): string {
    return this.#api.url
  }

  get relayPid(): number {
    return this.#relay.pid
  }

  /** kill -9, and off for a while. */
  async killRelay(ms: number): Promise<void> {
    await this.#relay.end('SIGKILL')
    await delay(ms)
    this.#relay = await this.#startRelay()
  }

  /** Starts the relay again if it has ended by itself. */
  async reviveRelay(): Promise<void> {
    if (!isAlive(this.#relay.pid)) await this.killRelay(0)
  }

  async killApi(ms: number): Promise<void> {
    await this.#api.end('SIGKILL')
    await delay(ms)
    this.#api = await this.#startApi()
  }

  async freezeRelay(ms: number): Promise<void> {
    process.kill(this.#relay.pid, 'SIGSTOP')
    await delay(ms)
    process.kill(this.#relay.pid, 'SIGCONT')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#relay.end('SIGKILL'), this.#api.end('SIGKILL')])
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
