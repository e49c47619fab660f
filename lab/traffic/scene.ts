/** The stage of a measurement: `static up` and some processes with a few agents each, all real. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TrafficProfileName } from '@static/protocol'
import type { ClientOptions } from '@static/sdk'
import { makeClient } from '@static/testkit/server/client'
import { signUp } from '@static/testkit/server/accounts'
import { type Server, startServer } from '@static/testkit/server'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import type { Phase, Schedule } from './schedule.ts'
import { portsOf } from './sockets.ts'
import type { Ask, Counts, Talk, Told } from './talk.ts'

/** A way to the relay. */
export type Way = 'quic' | 'grpc'

export const WAYS: readonly Way[] = ['quic', 'grpc']
/** How the agents of a process connect. */
export interface Lot {
  readonly way: Way
  readonly traffic: TrafficProfileName
}
export const PROFILES: readonly TrafficProfileName[] = ['off', 'standard', 'private', 'strict']

const MAIN = join(import.meta.dirname, 'agents-child.ts')
/** Processes that do the same thing at the same time: more would only wait for each other. */
const AT_ONCE = 4
const TICKS_PER_SECOND = 100

/** How large the scene is. */
export interface SceneSize {
  readonly processes: number
  /** Agents in each process; even, because they talk in pairs. */
  readonly agents: number
}

/** The running scene. */
export class Scene implements AsyncDisposable {
  readonly size: SceneSize
  readonly workspace: Workspace
  readonly #server: Server
  readonly #crowds: readonly Crowd[]
  readonly #options: ClientOptions
  #lots: readonly Lot[] = []

  private constructor(size: SceneSize, workspace: Workspace, server: Server, crowds: readonly Crowd[], apiKey: string) {
    this.size = size
    this.workspace = workspace
    this.#server = server
    this.#crowds = crowds
    const dataDir = join(workspace.path, 'agents')
    this.#options = { dataDir, apiKey, apiUrl: server.url, ca: join(workspace.path, 'server/ca.pem'), fallback: false }
  }

  /** Starts everything; when it resolves, the channels exist and no agent is connected. */
  static async start(size: SceneSize): Promise<Scene> {
    const workspace = await makeWorkspace()
    const dataDir = workspace.directory('server')
    workspace.directory('agents')
    const settings = { quota: { free: null }, rates: { tokens: { limit: 10_000, seconds: 60 } } }
    const server = await startServer({ workspace, dataDir, command: 'up', settings, logLevel: 'silent' })
    using client = makeClient(server.url, readFileSync(join(dataDir, 'ca.pem'), 'utf8'))
    const { api_key: apiKey } = await signUp(client)
    const crowds = Array.from({ length: size.processes }, (_, at) => new Crowd(`group${at}`, size.agents))
    const scene = new Scene(size, workspace, server, crowds, apiKey.key)
    await scene.connect(() => ({ way: 'grpc', traffic: 'off' }))
    await scene.#all((crowd) => crowd.ask({ type: 'found' }))
    await scene.close()
    return scene
  }

  /** Connects all agents, those of each process over its own transport. */
  async connect(lotOf: (process: number) => Lot): Promise<void> {
    this.#lots = this.#crowds.map((_, at) => lotOf(at))
    await this.#all((crowd, at) => {
      const { way, traffic } = this.#lotOf(at)
      return crowd.ask({ type: 'connect', options: { ...this.optionsFor(way), traffic } })
    })
  }

  /** Options for any agent of this scene; `dataDir` contains the directories of all of them. */
  optionsFor(way: Way): ClientOptions {
    return { ...this.#options, endpoint: `${way === 'quic' ? 'quic' : 'https'}://localhost:${this.#relayPort(way)}` }
  }

  /** Ends all sessions. */
  async close(): Promise<void> {
    await this.#all((crowd) => crowd.ask({ type: 'close' }))
  }

  /** The relay's ports that are in use now. */
  get relayPorts(): number[] {
    return [...new Set(this.#lots.map(({ way }) => this.#relayPort(way)))]
  }

  /** The ports of each process's sessions. */
  get ports(): number[][] {
    return this.#crowds.map(({ pid }, at) => {
      const { way } = this.#lotOf(at)
      const ports = portsOf(pid, way === 'quic' ? 'udp' : 'tcp', this.#relayPort(way))
      if (ports.length !== this.size.agents) throw new Error(`A process has ${ports.length} sessions.`)
      return ports.sort((a, b) => a - b)
    })
  }

  /** Lets each process talk in the blocks of its phases; returns the totals. */
  async play(schedule: Schedule, phases: readonly (readonly Phase[])[], talk: Talk): Promise<Counts> {
    const counts = await Promise.all(
      this.#crowds.map((crowd, at) => {
        const own = { ...talk, seed: talk.seed + at * 1000 }
        return crowd.ask({ type: 'play', schedule, phases: phases[at] ?? [], talk: own })
      }),
    )
    const sum = (field: keyof Counts): number => counts.reduce((all, one) => all + one[field], 0)
    return { sent: sum('sent'), received: sum('received'), lost: sum('lost') }
  }

  /** CPU time so far, in seconds. */
  get cpu(): { readonly server: number; readonly agents: number } {
    return { server: cpuOf(this.#server.pid), agents: this.#crowds.reduce((sum, { pid }) => sum + cpuOf(pid), 0) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#crowds.map((crowd) => crowd[Symbol.asyncDispose]()))
    await this.#server[Symbol.asyncDispose]()
    this.workspace[Symbol.dispose]()
  }

  #lotOf(process: number): Lot {
    const lot = this.#lots[process]
    if (!lot) throw new Error('Nobody is connected.')
    return lot
  }

  #relayPort(way: Way): number {
    return way === 'quic' ? this.#server.relay.quicPort : this.#server.relay.grpcPort
  }

  async #all(act: (crowd: Crowd, at: number) => Promise<unknown>): Promise<void> {
    const waiting = [...this.#crowds.entries()]
    const lane = async (): Promise<void> => {
      for (let next = waiting.shift(); next; next = waiting.shift()) await act(next[1], next[0])
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
  }
}

function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** A process of agents. */
class Crowd implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #exit: Promise<unknown>

  constructor(name: string, agents: number) {
    this.#child = fork(
      MAIN,
      Array.from({ length: agents }, (_, at) => `${name}-${at}`),
    )
    this.#exit = once(this.#child, 'exit')
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Asks one question at a time. */
  async ask(ask: Ask): Promise<Counts> {
    const answer = Promise.withResolvers<Told>()
    const take = (told: Told): void => answer.resolve(told)
    this.#child.once('message', take)
    this.#child.send(ask)
    const told = await Promise.race([answer.promise, this.#exit])
    this.#child.off('message', take)
    const isTold = (value: unknown): value is Told => typeof value === 'object' && value !== null && 'type' in value
    if (!isTold(told)) throw new Error(`A process of agents ended while it was to ${ask.type}.`)
    if (told.type === 'failed') throw new Error(`A process of agents could not ${ask.type}: ${told.message}`)
    return told.counts
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exit
  }
}
