/** API and relay on one node. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { quietPort } from '@static/testkit/ports'
import { relayWords, type Server, startServer } from '@static/testkit/server'
import { type Ready, startCommand } from '@static/testkit/server/process'
import { QUICK } from '@static/testkit/server/settings'
import type { Workspace } from '@static/testkit/server/workspace'
import { Clock } from './clock.ts'
import type { Target } from './line.ts'
import { freeze, isAlive, RELAY_SETTINGS, type Servers } from './servers.ts'

/** The servers. */
export class OneNode implements Servers {
  readonly targets: readonly Target[]
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
    this.targets = [target]
    this.clock = clock
    ;[this.#api, this.#startApi] = api
    ;[this.#relay, this.#startRelay] = relay
  }

  static async start(workspace: Workspace): Promise<OneNode> {
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
    const target = { host: '127.0.0.1', grpcPort: await quietPort(), quicPort: await quietPort() }
    const clock = new Clock(join(workspace.path, 'relay.clock'))
    const words = relayWords({
      workspace,
      dataDir: workspace.directory('relay'),
      api,
      credential: join(apiDir, 'relay.credential'),
      settings: RELAY_SETTINGS,
      grpcPort: target.grpcPort,
      quicPort: target.quicPort,
    })
    const startRelay = (): Promise<Ready<unknown>> =>
      startCommand([...words, '--quic-endpoints', '1', '--log-level', 'error'], {
        env: { TMPDIR: workspace.path, ...clock.env },
        nodeFlags: clock.nodeFlags,
      })
    try {
      return new OneNode(target, clock, [api, startApi], [await startRelay(), startRelay])
    } catch (error) {
      await api.end('SIGKILL')
      throw error
    }
  }

  get apiUrl(): string {
    return this.#api.url
  }

  get relayPids(): readonly number[] {
    return [this.#relay.pid]
  }

  /** kill -9, and off for a while. */
  async killRelay(ms: number): Promise<void> {
    await this.#relay.end('SIGKILL')
    await delay(ms)
    this.#relay = await this.#startRelay()
  }

  async revive(): Promise<void> {
    if (!isAlive(this.#relay.pid)) await this.killRelay(0)
  }

  async killApi(ms: number): Promise<void> {
    await this.#api.end('SIGKILL')
    await delay(ms)
    this.#api = await this.#startApi()
  }

  async freezeRelay(ms: number): Promise<void> {
    await freeze(this.#relay.pid, ms)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#relay.end('SIGKILL'), this.#api.end('SIGKILL')])
  }
}
