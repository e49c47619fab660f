/** Three relay nodes, two API nodes, PostgreSQL with a standby, and NATS. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { QUICK } from '@static/testkit/server/settings'
import type { Workspace } from '@static/testkit/server/workspace'
import { API_NODES, Cluster, type Part, RELAY_NODES } from '../../../tests/support/cluster.ts'
import { Clock } from './clock.ts'
import type { Target } from './line.ts'
import { freeze, isAlive, RELAY_SETTINGS, type Servers } from './servers.ts'

/** The servers. Nodes are counted from 0. */
export class SeveralNodes implements Servers {
  readonly targets: readonly Target[]
  /** The clock of each relay node. */
  readonly clocks: readonly Clock[]
  readonly #cluster: Cluster

  private constructor(cluster: Cluster, clocks: readonly Clock[]) {
    this.#cluster = cluster
    this.clocks = clocks
    const [grpc, quic] = (['grpc', 'quic'] as const).map((way) => cluster.endpoint(way).split(','))
    this.targets = clocks.map((_, node) => {
      const { hostname, port } = new URL(grpc?.[node] ?? '')
      return { host: hostname, grpcPort: Number(port), quicPort: Number(new URL(quic?.[node] ?? '').port) }
    })
  }

  static async start(workspace: Workspace): Promise<SeveralNodes> {
    const clocks = Array.from({ length: RELAY_NODES }, (_, node) => new Clock(join(workspace.path, `${node}.clock`)))
    const cluster = await Cluster.start(workspace, { api: QUICK, relay: RELAY_SETTINGS, clocks })
    return new SeveralNodes(cluster, clocks)
  }

  get apiUrl(): string {
    return this.#cluster.apiUrl(0)
  }

  get relayPids(): readonly number[] {
    return this.clocks.map((_, node) => this.#cluster.relayPid(node))
  }

  /** All API nodes at once: agents know one of them. */
  async killApi(ms: number): Promise<void> {
    const nodes = Array.from({ length: API_NODES }, (_, node) => node)
    await Promise.all(nodes.map((node) => this.#cluster.killApi(node)))
    await delay(ms)
    await Promise.all(nodes.map((node) => this.#cluster.startApi(node)))
  }

  async killRelay(node: number, ms: number): Promise<void> {
    await this.#cluster.killRelay(node)
    await delay(ms)
    await this.#cluster.startRelay(node)
  }

  /** Restarts it as an operator would. */
  async restartRelay(node: number): Promise<void> {
    await this.#cluster.stopRelay(node)
    await this.#cluster.startRelay(node)
  }

  async freezeRelay(node: number, ms: number): Promise<void> {
    await freeze(this.#cluster.relayPid(node), ms)
  }

  async cut(node: number, parts: readonly Part[], ms: number): Promise<void> {
    for (const part of parts) this.#cluster.cut(node, part)
    await delay(ms)
    for (const part of parts) this.#cluster.mend(node, part)
  }

  async killNats(ms: number): Promise<void> {
    await this.#cluster.nats.stop()
    await delay(ms)
    await this.#cluster.nats.start()
  }

  async killPrimary(): Promise<void> {
    const { primary } = this.#cluster.postgres
    await primary.kill()
    await primary.start()
  }

  async failOver(): Promise<void> {
    const { postgres } = this.#cluster
    await postgres.failOver()
    await postgres.rebuildStandby()
  }

  async revive(): Promise<void> {
    for (const [node, pid] of this.relayPids.entries()) if (!isAlive(pid)) await this.#cluster.startRelay(node)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cluster[Symbol.asyncDispose]()
  }
}
