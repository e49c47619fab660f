/**
 * A whole cluster as an operator runs it: three relay nodes, two API nodes, PostgreSQL with a synchronous standby, and
 * NATS, all of them processes that can be killed. Each relay node has its own address, and its own way to PostgreSQL and
 * NATS, which can be cut.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Gate, openGate } from '@static/testkit/gate'
import { type NatsServer, startNats } from '@static/testkit/nats'
import { quietPort } from '@static/testkit/ports'
import { type PostgresCluster, startCluster } from '@static/testkit/postgres/cluster'
import { type Server, startServer } from '@static/testkit/server'
import { type CommandOptions, type Ready, startCommand } from '@static/testkit/server/process'
import type { Workspace } from '@static/testkit/server/workspace'

export const RELAY_NODES = 3
export const API_NODES = 2

/** What a relay node can be cut off from. */
export type Part = 'postgres' | 'nats'

/** Settings of its servers. */
export interface ClusterSettings {
  readonly api: unknown
  readonly relay: object
  /** What moves the clocks of the relay nodes. */
  readonly clocks?: readonly (Required<Pick<CommandOptions, 'env'>> & Pick<CommandOptions, 'nodeFlags'>)[]
}

interface RelayNode {
  readonly host: string
  readonly gates: Readonly<Record<Part, readonly Gate[]>>
  readonly start: () => Promise<Ready<unknown>>
  process: Ready<unknown>
}

interface ApiNode {
  readonly start: () => Promise<Server>
  server: Server
}

/** The servers. */
export class Cluster implements AsyncDisposable {
  readonly postgres: PostgresCluster
  readonly nats: NatsServer
  readonly #workspace: Workspace
  readonly #settings: ClusterSettings
  readonly #credential: string = randomBytes(32).toString('hex')
  readonly #ports: { readonly grpc: number; readonly quic: number }
  readonly #relays: RelayNode[] = []
  readonly #apis: ApiNode[] = []

  private constructor(
    workspace: Workspace,
    settings: ClusterSettings,
    servers: Pick<Cluster, 'postgres' | 'nats'>,
    ports: { readonly grpc: number; readonly quic: number },
  ) {
    this.#workspace = workspace
    this.#settings = settings
    this.postgres = servers.postgres
    this.nats = servers.nats
    this.#ports = ports
  }

  static async start(workspace: Workspace, settings: ClusterSettings): Promise<Cluster> {
    const [postgres, nats] = await Promise.all([startCluster(), startNats()])
    const ports = { grpc: await quietPort(), quic: await quietPort() }
    const cluster = new Cluster(workspace, settings, { postgres, nats }, ports)
    try {
      for (const name of ['static_api', 'static_relay']) postgres.primary.ask(`create database ${name}`)
      for (let at = 0; at < API_NODES; at++) await cluster.#addApi(at)
      // The first creates the tables and the key.
      for (let at = 0; at < RELAY_NODES; at++) await cluster.#addRelay(at)
    } catch (error) {
      await cluster[Symbol.asyncDispose]()
      throw error
    }
    return cluster
  }

  /** The address of an API node. */
  apiUrl(at: number): string {
    return this.#api(at).server.url
  }

  /** The endpoint of all nodes, as agents are given it. */
  endpoint(way: 'grpc' | 'quic'): string {
    const port = this.#ports[way]
    return this.#relays.map(({ host }) => `${way === 'grpc' ? 'https' : 'quic'}://${host}:${port}`).join()
  }

  async killRelay(at: number): Promise<void> {
    await this.#relay(at).process.end('SIGKILL')
  }

  async startRelay(at: number): Promise<void> {
    const relay = this.#relay(at)
    relay.process = await relay.start()
  }

  /** The id of a relay node's process. */
  relayPid(at: number): number {
    return this.#relay(at).process.pid
  }

  /** Shuts a relay node down as an operator does. */
  async stopRelay(at: number): Promise<void> {
    const { process } = this.#relay(at)
    const { code, signal } = await process.end('SIGTERM')
    if (code !== 0) throw new Error(`A relay node ended with ${code ?? signal}: ${process.errors()}`)
  }

  /** The relay nodes that have sessions, most of them first. */
  async busiest(): Promise<number[]> {
    const counts = await Promise.all(this.#relays.map(({ host }) => this.#sessions(host)))
    const busy = [...counts.keys()].filter((at) => (counts[at] ?? 0) > 0)
    return busy.sort((one, other) => (counts[other] ?? 0) - (counts[one] ?? 0))
  }

  /** The number of sessions at all relay nodes together. */
  async sessions(): Promise<number> {
    const counts = await Promise.all(this.#relays.map(({ host }) => this.#sessions(host)))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  async killApi(at: number): Promise<void> {
    await this.#api(at).server.end('SIGKILL')
  }

  async startApi(at: number): Promise<void> {
    const api = this.#api(at)
    api.server = await api.start()
  }

  /** Nothing gets through between a relay node and PostgreSQL, or NATS. */
  cut(at: number, part: Part): void {
    for (const gate of this.#relay(at).gates[part]) gate.cut()
  }

  mend(at: number, part: Part): void {
    for (const gate of this.#relay(at).gates[part]) gate.mend()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([
      ...this.#relays.map(({ process }) => process.end('SIGKILL')),
      ...this.#apis.map(({ server }) => server.end('SIGKILL')),
    ])
    const gates = this.#relays.flatMap((relay) => Object.values(relay.gates).flat())
    await Promise.all(gates.map((gate) => gate[Symbol.asyncDispose]()))
    await this.nats[Symbol.asyncDispose]()
    await this.postgres.close()
  }

  async #addApi(at: number): Promise<void> {
    const name = `api-${at}`
    const dataDir = this.#workspace.directory(name)
    if (at > 0) copyFileSync(join(this.#workspace.path, 'api-0', 'master.key'), join(dataDir, 'master.key'))
    this.#workspace.file(`${name}/relay.credential`, `${this.#credential}\n`)
    const options = {
      workspace: this.#workspace,
      dataDir,
      database: this.postgres.url.replace('/postgres?', '/static_api?'),
      settings: this.#settings.api,
      internal: true,
      logLevel: 'silent',
      port: await quietPort(),
      internalPort: await quietPort(),
    } as const
    const start = (): Promise<Server> => startServer(options)
    this.#apis.push({ start, server: await start() })
  }

  async #addRelay(at: number): Promise<void> {
    const host = `127.0.0.1${at + 1}`
    const name = `relay-${at}`
    const workspace = this.#workspace
    const dataDir = workspace.directory(name)
    if (at > 0) copyFileSync(join(workspace.path, 'relay-0', 'relay.key'), join(dataDir, 'relay.key'))
    workspace.file(`${name}/relay.credential`, `${this.#credential}\n`)
    const settings = workspace.file(`${name}.json`, JSON.stringify(this.#settings.relay))
    const { primary, standby } = this.postgres
    const gates = {
      postgres: await Promise.all([primary, standby].map(({ port }) => openGate(port))),
      nats: [await openGate(Number(new URL(this.nats.url).port))],
    }
    const flags = {
      host,
      name: 'localhost',
      'grpc-port': this.#ports.grpc,
      'quic-port': this.#ports.quic,
      'quic-endpoints': 1,
      'data-dir': dataDir,
      'relay-settings': settings,
      cert: workspace.nameCertFile,
      key: workspace.nameKeyFile,
      'api-ca': workspace.caFile,
      'nats-ca': this.nats.caFile,
      'log-level': 'error',
    }
    const words = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, String(value)])
    const urls = this.#apis.map(({ server }) => server.url)
    const internal = this.#apis.map(({ server }) => server.internalUrl ?? '')
    const [first, second] = gates.postgres.map(({ port }) => `127.0.0.1:${port}`)
    const clock = this.#settings.clocks?.[at]
    const env = {
      ...clock?.env,
      STATIC_RELAY_DATABASE: `postgres://static:none@${first},${second}/static_relay?sslmode=disable`,
      STATIC_NATS: this.nats.url.replace(/\d+$/, String(gates.nats[0]?.port)),
      // A killed process does not clean up.
      TMPDIR: workspace.path,
    }
    const apis = ['--api-url', ...urls, '--api-internal-url', ...internal]
    const start = (): Promise<Ready<unknown>> =>
      startCommand(['relay', '--json', ...words, ...apis], { env, nodeFlags: clock?.nodeFlags })
    this.#relays.push({ host, gates, start, process: await start() })
  }

  /** The number of sessions of a node, by its metrics. */
  async #sessions(host: string): Promise<number> {
    const place = { host, port: this.#ports.grpc, servername: 'localhost', ca: this.#workspace.ca }
    const asked = get({ ...place, path: '/metrics', agent: false })
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    const counts = (await text(answer)).matchAll(/^static_relay_sessions\{.*\} (\d+)$/gm)
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
  }

  #relay(at: number): RelayNode {
    const relay = this.#relays[at]
    if (!relay) throw new Error(`There is no relay node ${at}.`)
    return relay
  }

  #api(at: number): ApiNode {
    const api = this.#apis[at]
    if (!api) throw new Error(`There is no API node ${at}.`)
    return api
  }
}
