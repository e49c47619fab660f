/** Servers, agents and the ways between them. */
import { join } from 'node:path'
import type { Below } from '@static/testkit/random'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { type History, readNotes } from '../history.ts'
import { AgentProcess } from './agent.ts'
import { Line } from './line.ts'
import { Servers } from './servers.ts'

export const CHANNEL = 'acme/chaos/talk'

/** An agent to be. */
export interface Cast {
  readonly name: string
  readonly language: 'typescript' | 'python'
  readonly way: 'grpc' | 'quic'
  /** Without an account. */
  readonly isGuest?: boolean
}

/** Everything that can fail. */
export class World implements AsyncDisposable {
  readonly servers: Servers
  readonly agents: AgentProcess[] = []
  readonly #workspace: Workspace
  readonly #apiKey: string
  readonly #below: Below

  private constructor(workspace: Workspace, servers: Servers, apiKey: string, below: Below) {
    this.#workspace = workspace
    this.servers = servers
    this.#apiKey = apiKey
    this.#below = below
  }

  static async start(below: Below): Promise<World> {
    const workspace = await makeWorkspace()
    try {
      const servers = await Servers.start(workspace)
      using client = makeClient(servers.apiUrl, workspace.ca)
      const { api_key: key } = await signUp(client)
      return new World(workspace, servers, key.key, below)
    } catch (error) {
      workspace[Symbol.dispose]()
      throw error
    }
  }

  /** Adds an agent, which starts. */
  async add({ name, language, way, isGuest = false }: Cast, pauseMs: number): Promise<AgentProcess> {
    const line = await Line.open(this.servers.target, this.#below)
    const directory = this.#workspace.directory(name)
    const dataDir = join(directory, 'data')
    const { grpcPort, quicPort } = line.ports
    const { apiUrl } = this.servers
    const ca = this.#workspace.caFile
    const endpoint = way === 'grpc' ? `https://127.0.0.1:${grpcPort}` : `quic://127.0.0.1:${quicPort}`
    const apiKey = isGuest ? null : this.#apiKey
    const options = { apiKey, identity: name, endpoint, ca, apiUrl, dataDir }
    const own = { ...options, relayName: 'localhost', grpcPort, connectTimeoutMs: 3000 }
    const task = { name, channel: CHANNEL, file: this.#file(name), pauseMs, seed: this.#below(2 ** 31) }
    const agent = new AgentProcess({
      task: { ...task, options: language === 'python' ? inPython(own) : { ...own, traffic: 'off' } },
      language,
      line,
      directory,
    })
    this.agents.push(agent)
    agent.start()
    return agent
  }

  /** What all agents have noted so far. */
  histories(): History[] {
    return this.agents.map(({ name }) => ({ name, notes: readNotes(this.#file(name)) }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.agents.map((agent) => agent[Symbol.asyncDispose]()))
    await Promise.all(this.agents.map(({ line }) => line[Symbol.asyncDispose]()))
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
