/** Servers, agents and the lines between them. */
import { join } from 'node:path'
import { quietPort } from '@static/testkit/ports'
import type { Below } from '@static/testkit/random'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { type History, readNotes } from '../history.ts'
import { AgentProcess } from './agent.ts'
import { Line } from './line.ts'
import type { Servers } from './servers.ts'

export const CHANNEL = 'acme/chaos/talk'

/** Options of a new agent. */
export interface Cast {
  readonly name: string
  readonly language: 'typescript' | 'python'
  readonly way: 'grpc' | 'quic'
  /** Without an account. */
  readonly isGuest?: boolean
}

/** Everything that can fail. */
export class World<Kind extends Servers = Servers> implements AsyncDisposable {
  readonly servers: Kind
  readonly agents: AgentProcess[] = []
  readonly #workspace: Workspace
  readonly #apiKey: string
  readonly #below: Below

  private constructor(workspace: Workspace, servers: Kind, apiKey: string, below: Below) {
    this.#workspace = workspace
    this.servers = servers
    this.#apiKey = apiKey
    this.#below = below
  }

  static async start<Kind extends Servers>(
    startServers: (workspace: Workspace) => Promise<Kind>,
    below: Below,
  ): Promise<World<Kind>> {
    const workspace = await makeWorkspace()
    try {
      const servers = await startServers(workspace)
      using client = makeClient(servers.apiUrl, workspace.ca)
      const { api_key: key } = await signUp(client)
      return new World(workspace, servers, key.key, below)
    } catch (error) {
      workspace[Symbol.dispose]()
      throw error
    }
  }

  /** Adds and starts an agent. */
  async add({ name, language, way, isGuest = false }: Cast, pauseMs: number): Promise<AgentProcess> {
    // Nodes of the relay differ by address; all have the same ports.
    const ports = { grpcPort: await quietPort(), quicPort: await quietPort() }
    const { targets, apiUrl } = this.servers
    const entries = targets.map((_, node) => ({ host: `127.0.0.2${node + 1}`, ...ports }))
    const lines = await Promise.all(
      targets.map((target, node) => Line.open(entries[node] ?? target, target, this.#below)),
    )
    const directory = this.#workspace.directory(name)
    const dataDir = join(directory, 'data')
    const ca = this.#workspace.caFile
    const endpoint = entries
      .map(({ host, grpcPort, quicPort }) =>
        way === 'grpc' ? `https://${host}:${grpcPort}` : `quic://${host}:${quicPort}`,
      )
      .join()
    const apiKey = isGuest ? null : this.#apiKey
    const options = { apiKey, identity: name, endpoint, ca, apiUrl, dataDir }
    const own = { ...options, relayName: 'localhost', grpcPort: ports.grpcPort, connectTimeoutMs: 3000 }
    const task = { name, channel: CHANNEL, file: this.#file(name), pauseMs, seed: this.#below(2 ** 31) }
    const agent = new AgentProcess({
      task: { ...task, options: language === 'python' ? inPython(own) : { ...own, traffic: 'off' } },
      language,
      lines,
      directory,
    })
    this.agents.push(agent)
    agent.start()
    return agent
  }

  /** The histories of all agents so far. */
  histories(): History[] {
    return this.agents.map(({ name }) => ({ name, notes: readNotes(this.#file(name)) }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.agents.map((agent) => agent[Symbol.asyncDispose]()))
    await Promise.all(this.agents.flatMap(({ lines }) => lines.map((line) => line[Symbol.asyncDispose]())))
    await this.servers[Symbol.asyncDispose]()
    this.#workspace[Symbol.dispose]()
  }

  #file(name: string): string {
    return join(this.#workspace.path, `${name}.history`)
  }
}

/** The same options under their names in Python, where times are in seconds. */
function inPython({ connectTimeoutMs, ...options }: Record<string, string | number | null>): object {
  const named = Object.entries(options).map(([key, value]) => [
    key.replaceAll(/[A-Z]/g, '_$&').toLowerCase(),
    value ?? '',
  ])
  return { ...(Object.fromEntries(named) as object), connect_timeout: Number(connectTimeoutMs) / 1000 }
}
